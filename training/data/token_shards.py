"""Token files: the ids of many sentence pairs on disk, mapped into memory, and an index of where each pair is.

    tokens-00000.bin, ...  the concatenated ids of the pairs, source before target; little-endian, 2 bytes each if the
                           vocabulary allows it, else 4
    lengths.npy            [pairs, side]: tokens
    starts.npy             [pairs, side]: where the first token is, counted in tokens over all files
    corpora.npy            [pairs]: the number of the corpus

Only lengths and corpora are ever read as a whole. This module handles arrays, and no text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]
Mask = NDArray[np.bool_]

SHARD_BYTES = 1 << 28
"""A token file is closed at this size, so that each can be copied or downloaded by itself."""
LENGTHS, STARTS, CORPORA = _INDEX = "lengths.npy", "starts.npy", "corpora.npy"


class ShardWriter:
    """Writes the token files of a folder, with pairs in the order of arrival."""

    def __init__(self, folder: Path, vocab_size: int, shard_bytes: int = SHARD_BYTES) -> None:
        self._folder, self._shard_bytes = folder, shard_bytes
        self._type = token_type(vocab_size)
        self._lengths: list[NDArray[np.uint32]] = []
        self._paths: list[Path] = []
        self._free_bytes = 0

    def add(self, ids: NDArray[Any], lengths: NDArray[np.uint32]) -> None:
        """Adds pairs, `ids` concatenated and `lengths` [pairs, side]. A pair of lengths 0 takes no space."""
        content = ids.astype(self._type).tobytes()
        if self._free_bytes <= 0:
            self._paths.append(self._folder / f"tokens-{len(self._paths):05d}.bin")
            self._free_bytes = self._shard_bytes
        with open(self._paths[-1], "ab") as file:
            file.write(content)
        self._free_bytes -= len(content)
        self._lengths.append(lengths)

    def finish(self, kept: Mask, corpora: NDArray[np.int16]) -> dict[str, list[int | str]]:
        """Writes the index of the pairs for which `kept`, [pairs added], is true; `corpora` are those of the kept
        pairs.

        The tokens of the others stay in the files without an index entry. Returns what `file_digests` returns.
        """
        lengths = np.concatenate([np.zeros((0, 2), np.uint32), *self._lengths])  # [pairs, side]
        ends = lengths.ravel().cumsum(dtype=np.int64).reshape(-1, 2)  # [pairs, side]
        np.save(self._folder / STARTS, ends[kept] - lengths[kept])
        small = np.uint16 if lengths.max(initial=0) < 1 << 16 else np.uint32
        np.save(self._folder / LENGTHS, lengths[kept].astype(small))
        np.save(self._folder / CORPORA, corpora)
        return file_digests(self._folder)


def token_type(vocab_size: int) -> np.dtype[Any]:
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


def file_digests(folder: Path) -> dict[str, list[int | str]]:
    """The size and SHA-256 of each token file and index in `folder`, by name; flushes them to disk."""
    paths = [*sorted(folder.glob("tokens-*.bin")), *(folder / name for name in _INDEX)]
    found: dict[str, list[int | str]] = {}
    for path in paths:
        with open(path, "rb") as file:
            found[path.name] = [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
            os.fsync(file.fileno())
    return found


def check_sizes(folder: Path, files: dict[str, list[int | str]]) -> None:
    """Raises ValueError if one of `files`, as of `file_digests`, is missing from `folder` or truncated. Does not read
    them."""
    for name, (size, _) in files.items():
        path = folder / name
        found = path.stat().st_size if path.exists() else None
        if found != size:
            fault = "is missing" if found is None else f"has {found:,} bytes instead of {size:,}"
            raise ValueError(f"{path} {fault}: prepare the data again")


def is_intact(folder: Path, files: dict[str, list[int | str]]) -> bool:
    """Whether the files are intact; reads them all."""
    return all((folder / name).exists() for name in files) and file_digests(folder) == files


class TokenFiles:
    """The ids in several token files as one array, which reads only the positions that are looked up."""

    def __init__(self, paths: Sequence[Path], vocab_size: int) -> None:
        mapped = (np.memmap(path, token_type(vocab_size), "r") for path in paths if path.stat().st_size)
        self._set_files([np.asarray(file) for file in mapped])

    def _set_files(self, files: list[NDArray[Any]]) -> None:
        self._files = files
        self._ends = np.cumsum([len(file) for file in files], dtype=np.int64)  # [files]

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def extended(self, ids: NDArray[Any]) -> TokenFiles:
        """These ids, and `ids` after them in memory."""
        both = TokenFiles([], 0)
        both._set_files([*self._files, ids.astype(self._files[0].dtype)])
        return both

    def __getitem__(self, positions: Integers) -> Integers:
        """The ids at `positions`, any shape."""
        if len(self._files) == 1:
            return self._files[0][positions].astype(np.int64)
        numbers = np.searchsorted(self._ends, positions, "right")
        found = np.empty(positions.shape, np.int64)
        for number in np.unique(numbers):
            here = numbers == number
            first = self._ends[number] - len(self._files[number])
            found[here] = self._files[number][positions[here] - first]
        return found


@dataclass(frozen=True)
class Shards:
    """A folder's tokens and index, mapped. `lengths`, `starts`: [pairs, side]; `corpora`: [pairs]."""

    tokens: TokenFiles
    lengths: NDArray[Any]
    starts: Integers
    corpora: NDArray[np.int16]

    @classmethod
    def open(cls, folder: Path, files: dict[str, list[int | str]], vocab_size: int) -> Shards:
        """Raises ValueError if one of `files` is missing or truncated; see `check_sizes`."""
        check_sizes(folder, files)
        tokens = TokenFiles([folder / name for name in files if name.endswith(".bin")], vocab_size)
        lengths, starts, corpora = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in _INDEX)
        return cls(tokens, lengths, starts, corpora)
