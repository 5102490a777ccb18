"""Feeds mutated files to the importers of every family.

    PYTHONPATH=.:tests/support python -m benchmarks.importing_fuzz --count 10000
    PYTHONPATH=.:tests/support python -m benchmarks.importing_fuzz nllb marian-zip --count 2000

Bytes are flipped, replaced, repeated or cut, mostly in a file's first kilobytes, where lengths are, and in its last,
where a zip has its directory; numbers become huge, tiny or no numbers; and values of JSON and YAML become others. A
model must be refused with an ImportFault of one line, or become a model of finite weights. Anything else ends the
program, which says in which temporary folder it leaves the file. Prints the counts, and how far the peak of the
process's memory rose; the limit is twice the file's size and 100 MB.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import resource
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import sentencepiece
from imported_models import argos_package, opennmt_spec, opennmt_tokens, save_spec, unigram_pieces
from m2m_models import nllb_folder
from marian_models import INTGEMM8, as_bin, marian_pieces, marian_transformer, piece_count

from tests.training.importing.test_huggingface_marian import write_folder
from training.export.marian import marian_arrays, write_npz
from training.importing.errors import ImportFault
from training.importing.families import build_model, read_model
from training.importing.options import ImportOptions

NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)
FLOATS = (1e38, -1e38, 3e9, 1e-45, float("nan"), float("inf"))
VALUES: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**70,
    1e308,
    -0.5,
    float("nan"),
    "",
    "x",
    "\ud800",
    [],
    [[]],
    {},
    "9" * 50,
)


def mutated(content: bytes, draw: random.Random) -> bytes:
    """`content` with some bytes changed."""
    made = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8))):
        places = (
            draw.randrange(len(made)),
            draw.randrange(min(4096, len(made))),
            max(0, len(made) - draw.randrange(1, 4096)),
        )
        at, kind = min(draw.choice(places), len(made) - 1), draw.randrange(7)
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
        elif kind == 5:
            made[at : at + 4] = struct.pack("<I", draw.choice(NUMBERS) & 0xFFFFFFFF)
        else:
            made[at & ~3 : (at & ~3) + 4] = struct.pack("<f", draw.choice(FLOATS))
        made = made or bytearray(b"\0")
    return bytes(made)


def with_other_value(content: bytes, draw: random.Random) -> bytes:
    """JSON with another value, or without one; YAML with another value in a line."""
    try:
        document = json.loads(content)
    except ValueError:
        lines = content.decode().split("\n")
        at = draw.randrange(len(lines))
        value = json.dumps(draw.choice(VALUES))
        lines[at] = re.sub(r"(?<=: ).*|(?<=- ).*", lambda _: value, lines[at], count=1)
        return "\n".join(lines).encode()
    parent = document
    while True:
        keys = list(parent if isinstance(parent, dict) else range(len(parent)))
        key = draw.choice(keys)
        if not (isinstance(parent[key], dict | list) and parent[key] and draw.random() < 0.8):
            break
        parent = parent[key]
    if draw.random() < 0.2:
        del parent[key]
    else:
        parent[key] = draw.choice(VALUES)
    return json.dumps(document).encode()


def check_import(path: Path) -> None:
    model, _ = build_model(read_model(ImportOptions(path, "en", "fr", Path("unused"))))
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def fuzz(
    name: str,
    model: Path,
    files: list[Path],
    count: int,
    seed: int,
    check: Callable[[Path], None] = check_import,
) -> None:
    """Mutates one of `files` at a time, which are `model` or are in it, and has `check` import it."""
    draw = random.Random(seed)
    results: collections.Counter[str] = collections.Counter()
    kept = {file: file.read_bytes() for file in files}
    check(model)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        file = draw.choice(files)
        is_text = file.suffix in (".json", ".yml", ".vocab")
        change = with_other_value if is_text and draw.random() < 0.7 else mutated
        file.write_bytes(made := change(kept[file], draw))
        try:
            check(model)
            results["read"] += 1
        except ImportFault as fault:
            if "\n" in str(fault):
                raise SystemExit(f"more than a line: {fault!r}") from fault
            results["refused"] += 1
        except Exception as error:
            left = Path(tempfile.mkdtemp(prefix=f"{name}-")) / file.name
            left.write_bytes(made)
            error.add_note(f"imported: {model}, with {left} in place of its {file.name}")
            raise
        file.write_bytes(kept[file])
    rise = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    longest = max(map(len, kept.values()))
    assert rise <= 2 * longest + 100e6, f"{name}: {rise:,} bytes more at the peak"
    print(f"{name}, {longest:,} bytes: {dict(results)}, memory {rise / 1e6:.1f} MB higher at the peak", flush=True)


def marian_model(folder: Path, kind: str) -> Path:
    """A model of Marian, and its vocabulary, in `folder`. Returns the file of weights."""
    folder.mkdir()
    proto = marian_pieces()
    (folder / "vocab.spm").write_bytes(proto)
    arrays = marian_arrays(marian_transformer(piece_count(proto), decoder="ssru"))
    path = folder / f"model.{'npz' if kind == 'npz' else 'bin'}"
    if kind == "npz":
        write_npz(path, arrays)
    else:
        path.write_bytes(as_bin(arrays, INTGEMM8 if kind == "int8" else 0x404))
    return path


def opus_folder(folder: Path) -> Path:
    """As OPUS-MT's releases: .npz, vocab.yml, two SentencePiece models, decoder.yml."""
    marian_model(folder, "npz")
    proto = (folder / "vocab.spm").read_bytes()
    (folder / "vocab.spm").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    pieces = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
    (folder / "vocab.yml").write_text("".join(f"{json.dumps(piece)}: {id}\n" for id, piece in enumerate(pieces)))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(proto)
    (folder / "decoder.yml").write_text(
        "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n  - vocab.yml\n  - vocab.yml\n"
        "beam-size: 6\nnormalize: 1\nword-penalty: 0\n"
    )
    return folder


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    return path


def ctranslate2_folder(folder: Path) -> Path:
    pieces = unigram_pieces()
    return save_spec(opennmt_spec(opennmt_tokens(pieces)), folder, pieces, "int8")


def m2m_folder(folder: Path) -> Path:
    """As M2M-100's, with a vocabulary and numbered tokens of languages."""
    nllb_folder(folder)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    pieces = [processor.id_to_piece(id) for id in range(3, processor.get_piece_size())]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    added = {str(len(tokens) + n): {"content": f"__{code}__"} for n, code in enumerate(("en", "fr", "de"))}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return folder


def weights_of(folder: Path) -> tuple[Path, list[Path]]:
    return folder, sorted(folder.glob("model.*"))


def sidecars_of(folder: Path) -> tuple[Path, list[Path]]:
    return folder, sorted(file for file in folder.iterdir() if not file.name.startswith("model."))


def only(path: Path) -> tuple[Path, list[Path]]:
    return path, [path]


def marian_mt(folder: Path) -> Path:
    write_folder(folder)
    return folder


MODELS: dict[str, Callable[[Path], tuple[Path, list[Path]]]] = {
    "marian-bin": lambda place: only(marian_model(place, "float32")),
    "marian-int8": lambda place: only(marian_model(place, "int8")),
    "marian-npz": lambda place: only(marian_model(place, "npz")),
    "marian-sidecars": lambda place: sidecars_of(opus_folder(place)),
    "marian-zip": lambda place: only(zipped(opus_folder(place), place.with_suffix(".zip"))),
    "marian-mt": lambda place: weights_of(marian_mt(place)),
    "marian-mt-sidecars": lambda place: sidecars_of(marian_mt(place)),
    "nllb": lambda place: weights_of(nllb_folder(place)[0]),
    "nllb-sidecars": lambda place: sidecars_of(nllb_folder(place)[0]),
    "m2m": lambda place: weights_of(m2m_folder(place)),
    "m2m-sidecars": lambda place: sidecars_of(m2m_folder(place)),
    "ctranslate2": lambda place: weights_of(ctranslate2_folder(place)),
    "ctranslate2-sidecars": lambda place: sidecars_of(ctranslate2_folder(place)),
    "argos-zip": lambda place: only(argos_package(place.with_suffix(".argosmodel"), ctranslate2_folder(place))),
}
"""How to make each model in a folder: its path, and the files of it to mutate."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)} (default: all)")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        for name in given.models or MODELS:
            fuzz(name, *MODELS[name](Path(place, name)), given.count, given.seed)


if __name__ == "__main__":
    main()
