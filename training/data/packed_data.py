"""A data folder as parts that travel, and again from these: the same files, byte for byte, that training reads."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.bundle_files import TARGET_VOCABULARY, VOCABULARY
from training.data.dataset import DEVELOPMENT_PAIRS, RECORD, PreparedSummary
from training.data.parts import PackedFile, Parts, PartsError, pack_files
from training.data.token_shards import CORPORA, LENGTHS, STARTS, check_sizes, is_intact, token_type

KIND = "data"
_GAPS = f"{STARTS}.gaps"
"""In place of the starts, which follow from the lengths: the header of their file, and how far each lies behind the end
of the one before, which is 0 but for pairs that were left out."""


def pack_data(data: Path, out: Path, part_bytes: int) -> Parts:
    """Packs the data folder `data` into the folder `out`, which it makes or replaces. The reports on cleaning stay.

    Raises ValueError if `data` is not a data folder of this version, or incomplete.
    """
    summary = PreparedSummary.load(data)
    check_sizes(data, summary.files)
    id_bytes = token_type(summary.vocab_size).itemsize
    lengths = np.load(data / LENGTHS, mmap_mode="r")
    files = [PackedFile.of(data / name, id_bytes) for name in summary.files if name.endswith(".bin")]
    files += [
        PackedFile.of(data / LENGTHS, lengths.itemsize * 2, planes=True),
        PackedFile(_GAPS, _gaps(data / STARTS, lengths), 8),
        PackedFile.of(data / CORPORA, 2),
    ]
    names = (VOCABULARY, TARGET_VOCABULARY, DEVELOPMENT_PAIRS, RECORD)
    files += [PackedFile.of(data / name) for name in names if (data / name).exists()]
    record = {"source": summary.source, "target": summary.target, "pairs": summary.pairs}
    return pack_files(out, KIND, files, record, part_bytes)


def unpack_data(parts: Parts, folder: Path) -> PreparedSummary:
    """Writes the data folder that `parts` were made of into `folder`. Raises PartsError unless all is as it was."""
    parts.unpack(folder)
    gaps = folder / _GAPS
    _write_starts(gaps, np.load(folder / LENGTHS, mmap_mode="r"), folder / STARTS)
    gaps.unlink()
    summary = PreparedSummary.load(folder)
    if not is_intact(folder, summary.files):
        raise PartsError(f"{parts.folder}: the files do not come out as {RECORD} has them: pack them again")
    return summary


def _gaps(path: Path, lengths: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
    starts = np.load(path, mmap_mode="r")  # [pairs, side]
    header = path.read_bytes()[: path.stat().st_size - starts.nbytes]
    begins = starts.ravel().astype(np.int64)  # [pairs * side]
    gaps = np.diff(begins, prepend=0)
    gaps[1:] -= lengths.ravel()[:-1]
    content = len(header).to_bytes(8, "little") + header + gaps.astype("<i8").tobytes()
    return np.frombuffer(content, np.uint8)


def _write_starts(path: Path, lengths: NDArray[np.unsignedinteger], out: Path) -> None:
    content = path.read_bytes()
    header_bytes = int.from_bytes(content[:8], "little")
    begins = np.frombuffer(content, "<i8", offset=8 + header_bytes).copy()  # [pairs * side]
    begins[1:] += lengths.ravel()[:-1]
    with open(out, "wb") as file:
        file.write(content[8 : 8 + header_bytes] + begins.cumsum().astype("<i8").tobytes())
        file.flush()
        os.fsync(file.fileno())
