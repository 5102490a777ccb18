"""Stores pairs on disk while `prepare` selects from them, with a few bytes per pair in memory.

Finds duplicates and computes tokens; `training.data.prepare` decides which pairs to keep.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from model.languages import ends_sentence
from model.tokenizer import Tokenizers
from training.cleaning.holdout import CODES_PER_PART, partitions, sentence_key
from training.corpora.corpus import LineTally, NumberedPair, Pair, hash64
from training.data.token_shards import Integers, Mask, token_type
from training.process_map import map_in_order

CHUNK_PAIRS = 1 << 13
"""Pairs per task of a process."""


class PairTexts(Sequence[Pair]):
    """Pairs in a file, one per line; `starts`, [pairs], are the offsets of the lines."""

    def __init__(self, path: Path, starts: Integers) -> None:
        self.path, self.starts = path, starts
        with open(path, "rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | Sequence[Pair]:
        if isinstance(index, slice):
            return PairTexts(self.path, self.starts[index])
        return self._at(int(self.starts[index]))

    def __iter__(self) -> Iterator[Pair]:
        for chunk in chunks(self.starts):
            yield from map(self._at, chunk.tolist())

    def _at(self, start: int) -> Pair:
        source, _, target = self._bytes[start : self._bytes.find(b"\n", start)].decode().partition("\t")
        return Pair(source, target)


def chunks(starts: Integers) -> Iterator[Integers]:
    return (starts[first : first + CHUNK_PAIRS] for first in range(0, len(starts), CHUNK_PAIRS))


@dataclass(frozen=True)
class PairStore:
    """Pairs of all corpora with their origin: the number of the corpus (from 0), and the line in it (from 1)."""

    pairs: PairTexts
    corpora: NDArray[np.int16]
    lines: NDArray[np.uint32]

    def keep(self, kept: Mask, skipped: Sequence[LineTally], reason: str) -> PairStore:
        """The pairs for which `kept`, [pairs], is true; counts the others in `skipped` of their corpus."""
        if kept.all():
            return self
        for first in range(0, len(kept), CHUNK_PAIRS):  # a list of all rows would take 40 bytes per pair
            for row in (first + np.flatnonzero(~kept[first : first + CHUNK_PAIRS])).tolist():
                lines = skipped[self.corpora[row]]
                lines.add(reason, int(self.lines[row]), self.pairs[row] if lines.needs_example(reason) else None)
        return PairStore(PairTexts(self.pairs.path, self.pairs.starts[kept]), self.corpora[kept], self.lines[kept])

    def count(self, corpus: int) -> int:
        return int((self.corpora == corpus).sum())


class PairStoreWriter:
    """Appends pairs one by one to a new file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts, self._corpora, self._lines = array("q"), array("h"), array("I")

    def add_all(self, corpus: int, pairs: Iterable[NumberedPair]) -> int:
        """Adds the pairs of corpus number `corpus` with their lines; returns their number."""
        before = len(self._starts)
        with open(self._path, "ab") as file:
            for line, pair in pairs:
                self._starts.append(file.tell())
                self._corpora.append(corpus)
                self._lines.append(line)
                file.write(f"{pair.source}\t{pair.target}\n".encode())
        return len(self._starts) - before

    def finish(self) -> PairStore:
        texts = PairTexts(self._path, np.frombuffer(self._starts, np.int64))
        return PairStore(texts, np.frombuffer(self._corpora, np.int16), np.frombuffer(self._lines, np.uint32))


# ---- Long computations, on chunks of the store


@dataclass(frozen=True)
class Encoded:
    """The tokens of a chunk: `lengths`, [pairs, side], of all; concatenated `ids` of pairs within `max_tokens`."""

    ids: NDArray[Any]
    lengths: NDArray[np.uint32]
    end_marks: Mask
    """Which sources have an end mark: [pairs]."""
    known: Mask
    """Which targets have no unknown symbol: [pairs]. It stands for a character that a vocabulary without bytes
    lacks."""


def hashes(store: PairStore, processes: int) -> Iterator[Integers]:
    """Yields for each chunk the hashes of the pair, and of the keys of source and target: [pairs, 3]."""
    return map_in_order(partial(_hashes, store.pairs.path), chunks(store.pairs.starts), processes)


def encode(store: PairStore, tokenizers: Tokenizers, max_tokens: int, processes: int) -> Iterator[Encoded]:
    """Yields the tokens of each chunk of the store."""
    source, target = tokenizers
    made_of = source.proto, None if tokenizers.is_joint else target.proto, source.moses_language
    work = partial(_encode, store.pairs.path, made_of, max_tokens)
    return map_in_order(work, chunks(store.pairs.starts), processes)


def _hashes(path: Path, starts: Integers) -> Integers:
    found = [
        (hash64("\t".join(pair)), sentence_key(pair.source), sentence_key(pair.target))
        for pair in PairTexts(path, starts)
    ]
    return np.array(found, np.int64)


_MadeOf = tuple[bytes, bytes | None, str | None]
"""The arguments of `Tokenizers.of`."""


def _encode(path: Path, made_of: _MadeOf, max_tokens: int, starts: Integers) -> Encoded:
    tokenizers, ids = _tokenizers(made_of), array("I")
    lengths, end_marks, known = array("I"), array("b"), array("b")
    for source, target in PairTexts(path, starts):
        sides = tokenizers.encode_pair(source, target)
        lengths.extend(map(len, sides))
        end_marks.append(ends_sentence(source))
        known.append(tokenizers.target.unknown_id not in sides[1])
        if max(map(len, sides)) <= max_tokens:
            for side in sides:
                ids.extend(side)
    flat = np.array(ids, np.uint32).astype(token_type(max(tokenizer.vocab_size for tokenizer in tokenizers)))
    masks = np.array(end_marks, np.bool_), np.array(known, np.bool_)
    return Encoded(flat, np.array(lengths, np.uint32).reshape(-1, 2), *masks)


@lru_cache(maxsize=1)
def _tokenizers(made_of: _MadeOf) -> Tokenizers:
    """Cached between chunks: building them takes as long as encoding hundreds of sentences."""
    return Tokenizers.of(*made_of)


def is_first(codes: Integers, codes_per_part: int = CODES_PER_PART) -> Mask:
    """Which codes are the first with their value: [pairs]."""
    first = np.zeros(len(codes), np.bool_)
    for part in partitions(codes, codes_per_part):
        first[part[np.unique(codes[part], return_index=True)[1]]] = True
    return first
