"""Shards: parts of the input that are translated whole, each into a file of its own.

A file of at most `SHARD_BYTES` is one shard, and so is a compressed one. A larger one is cut into stretches of
lines, or into row groups of Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import PurePosixPath

SHARD_BYTES = 1 << 20
"""About 20,000 short lines, some ten seconds of one core. Bytes, not lines, so that planning reads no file whole."""
SHARD_ROWS = 20_000
"""Row groups with fewer rows go together."""
LINE_FORMATS = (".txt", ".tsv", ".jsonl")
PARQUET = ".parquet"
COMPRESSIONS = (".gz", ".zst")


@dataclass(frozen=True)
class Shard:
    """A part of an input file, and the output file that it becomes."""

    path: str
    """Of its file in the input."""
    suffix: str
    """Of the format: one of `LINE_FORMATS`, or `PARQUET`."""
    compression: str
    """One of `COMPRESSIONS`; empty if there is none."""
    start: int
    end: int
    """Bytes [start, end) of a file: its lines that begin there; or row groups [start, end)."""
    number: int
    count: int
    """The shard's number among those of its file, from 0, and how many these are."""
    size: int
    """Bytes of the file that it stands for, for the progress."""

    @property
    def output(self) -> str:
        """The path of the input file, or in a folder of this name "part-00017-of-00240"."""
        if self.count == 1:
            return self.path
        return f"{self.path}/part-{self.number:05}-of-{self.count:05}{self.suffix}"


def format_of(path: str) -> tuple[str, str] | None:
    """The suffixes of format and compression of a file that is to be translated; None for any other.

    As for other tools of this kind, hidden is what begins with a dot or an underscore, files and folders.
    """
    name = PurePosixPath(path)
    if any(part.startswith((".", "_")) for part in name.parts):
        return None
    suffixes = [suffix.lower() for suffix in name.suffixes]
    if suffixes and suffixes[-1] in (*LINE_FORMATS, PARQUET):
        return suffixes[-1], ""
    if len(suffixes) > 1 and suffixes[-1] in COMPRESSIONS and suffixes[-2] in LINE_FORMATS:
        return suffixes[-2], suffixes[-1]
    return None


def line_shards(path: str, suffix: str, compression: str, size: int) -> Iterator[Shard]:
    count = 1 if compression else max(1, -(-size // SHARD_BYTES))
    cuts = [size * number // count for number in range(count + 1)]
    for number, (start, end) in enumerate(pairwise(cuts)):
        yield Shard(path, suffix, compression, start, end, number, count, end - start)


def row_group_shards(path: str, rows: list[int], size: int) -> Iterator[Shard]:
    """`rows`: of each row group."""
    cuts, in_shard = [0], 0
    for group, count in enumerate(rows):
        if in_shard and in_shard + count > SHARD_ROWS:
            cuts.append(group)
            in_shard = 0
        in_shard += count
    cuts.append(len(rows))
    before = [0, *accumulate(rows)]
    for number, (start, end) in enumerate(pairwise(cuts)):
        first, last = (size * before[group] // (before[-1] or 1) for group in (start, end))
        yield Shard(path, PARQUET, "", start, end, number, len(cuts) - 1, last - first)
