"""Feeds mutated files to the parsers of Marian's and Hugging Face's models.

    PYTHONPATH=.:tests python -m benchmarks.importing_fuzz --count 10000

Each mutation flips, replaces, repeats or cuts bytes, mostly in the first kilobytes, where lengths are, and in the last,
where a zip has its directory. A parser must refuse a file with an ImportFault of one line, or return finite numbers.
Anything else ends the program. Of every 50th file the whole import runs. Prints the counts, and how far the peak of the
process's memory rose; the limit is twice the file's size and 100 MB.
"""

from __future__ import annotations

import argparse
import collections
import random
import resource
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from marian_models import as_bin, marian_pieces, marian_transformer, piece_count
from safetensors.numpy import save

from training.export.marian import marian_arrays, write_npz
from training.importing.bundle import ImportOptions, build_model, read_model
from training.importing.errors import ImportFault
from training.importing.marian_files import read_marian_file
from training.importing.safetensors_files import StoredTensors
from training.importing.yaml_subset import read_mapping

NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)


def mutated(content: bytes, draw: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        places = (
            draw.randrange(len(made)),
            draw.randrange(min(4096, len(made))),
            max(0, len(made) - draw.randrange(1, 4096)),
        )
        at, kind = min(draw.choice(places), len(made) - 1), draw.randrange(6)
        if kind == 0:
            made[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            made[at] = draw.randrange(256)
        elif kind == 2:
            made[at : at + 8] = struct.pack("<Q", draw.choice(NUMBERS))
        elif kind == 3:
            del made[at : at + draw.choice((1, 8, 1000))]
        elif kind == 4:
            made[at:at] = made[at : at + draw.choice((1, 8, 100))]
        else:
            made[at : at + 4] = struct.pack("<I", draw.choice(NUMBERS) & 0xFFFFFFFF)
        if not made:
            made = bytearray(b"\0")
    return bytes(made)


def check_marian(path: Path) -> None:
    parsed = read_marian_file(path)
    read_mapping(parsed.options)
    for name, array in parsed.arrays.items():
        try:
            values = array.numbers()
        except ImportFault as fault:
            raise ImportFault(f"{name} {fault}") from None
        assert np.isfinite(values).all() and values.shape == array.shape


def check_safetensors(path: Path) -> None:
    tensors = StoredTensors(path.parent)
    assert all(tensors[name].isfinite().all() for name in tensors)


def check_import(path: Path) -> None:
    model, _ = build_model(read_model(ImportOptions(path, "en", "fr", Path("unused"))))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def fuzz(name: str, content: bytes, check: Callable[[Path], None], path: Path, count: int, seed: int) -> None:
    draw = random.Random(seed)
    results: collections.Counter[str] = collections.Counter()
    before, longest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for number in range(count):
        path.write_bytes(made := mutated(content, draw))
        longest = max(longest, len(made))
        whole = number % 50 == 0 and path.suffix in (".bin", ".npz")
        try:
            (check_import if whole else check)(path)
            results["read"] += 1
        except ImportFault as fault:
            if "\n" in str(fault):
                raise SystemExit(f"more than a line: {fault}") from fault
            results["refused"] += 1
    rise = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert rise <= 2 * longest + 100e6, f"{name}: {rise:,} bytes more at the peak"
    print(f"{name}, {len(content):,} bytes: {dict(results)}, memory {rise / 1e6:.1f} MB higher at the peak", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    proto = marian_pieces()
    arrays = marian_arrays(marian_transformer(piece_count(proto), decoder="ssru"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "vocab.spm").write_bytes(proto)
        write_npz(folder / "model.npz", arrays)
        packed = (folder / "model.npz").read_bytes()
        check_import(folder / "model.npz")
        tensors = {name: array for name, array in arrays.items() if array.dtype == np.float32}
        for number, (name, content, check, file) in enumerate(
            (
                ("float32 .bin", as_bin(arrays), check_marian, "model.bin"),
                ("intgemm8 .bin", as_bin(arrays, 0x4101), check_marian, "model.bin"),
                (".npz", packed, check_marian, "model.npz"),
                ("safetensors", save(tensors), check_safetensors, "model.safetensors"),
            )
        ):
            for old in folder.glob("model.*"):
                old.unlink()
            fuzz(name, content, check, folder / file, given.count, given.seed + number)


if __name__ == "__main__":
    main()
