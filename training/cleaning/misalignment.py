"""Finds runs of lines whose translations are shifted by some lines, as after a lost cell in a spreadsheet.

It learns word correspondences from the corpus itself, in any language: roughly, but well enough to tell a run of a few
lines from its shifted self, though not to judge a single pair.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.corpora.corpus import LineTally, NumberedPair, Pair

MIN_PAIRS = 1000
"""The minimum number of pairs to learn words from: smaller corpora are not searched."""
_SAMPLE_PAIRS = 10_000
_MAX_SHIFT_LINES = 5
"""Maximum shift in lines."""
_SHIFTS = 2 * _MAX_SHIFT_LINES + 1
_CHUNK_PAIRS = 1000
_SHIFT_COST = 0.75
"""The cost of entering a shift, and of leaving it: about what three shifted lines gain."""
_MIN_ALIGNED_RATIO = 2.0
"""Aligned pairs must be at least this many times as similar as unrelated lines."""
_MAX_UNSHIFTED_SHARE = 0.5
"""A run is kept if its similarity unshifted is more than this share of its similarity shifted."""
_MIN_RUN_LINES = 8
"""In lines: a shorter run may be chance in a sorted file."""
_BUCKETS = 2048
_MAX_WORDS = 20
_PREFIX_CHARS = 5
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+")

Floats = NDArray[np.floating[Any]]
Words = NDArray[np.int64]
_NO_WORDS: Words = np.zeros(1, np.int64)


def drop_misaligned(pairs: Iterable[NumberedPair], dropped: LineTally) -> Iterator[NumberedPair]:
    """Yields the pairs outside shifted runs, in order; counts the others in `dropped`.

    Needs memory for 10,000 pairs and a table of 16 MB, whatever the size of the corpus.
    """
    stream = iter(pairs)
    sample = list(islice(stream, _SAMPLE_PAIRS))
    if len(sample) < MIN_PAIRS:
        yield from sample
        return
    lexicon = Lexicon([pair for _, pair in sample])
    for chunk, first, last in _chunks(chain(sample, stream)):
        shifts = lexicon.shifts([pair for _, pair in chunk])[first:last]
        for (number, pair), shift in zip(chunk[first:last], shifts.tolist(), strict=True):
            if shift == 0:
                yield number, pair
            else:
                dropped.add(_reason(shift), number, pair)


def _reason(shift: int) -> str:
    lines = "1 line" if abs(shift) == 1 else f"{abs(shift)} lines"
    return f"misaligned: the translation is {lines} {'below' if shift > 0 else 'above'}"


def _chunks(pairs: Iterable[NumberedPair]) -> Iterator[tuple[list[NumberedPair], int, int]]:
    """Yields chunks with some neighbouring lines before and after, and the bounds of the chunk itself."""
    stream = iter(pairs)
    before: list[NumberedPair] = []
    chunk = list(islice(stream, _CHUNK_PAIRS))
    while chunk:
        following = list(islice(stream, _CHUNK_PAIRS))
        yield before + chunk + following[:_MAX_SHIFT_LINES], len(before), len(before) + len(chunk)
        before, chunk = chunk[-_MAX_SHIFT_LINES:], following


class Lexicon:
    """Word associations: how much more often than by chance words of the two sides occur together."""

    def __init__(self, pairs: list[Pair]) -> None:
        sources, targets = ([_words(side) for side in sides] for sides in zip(*pairs, strict=True))
        self._association = _association(sources, targets, (0,))
        similarity = self._similarity(sources, targets).mean(1)  # [shift]
        if similarity[_MAX_SHIFT_LINES] < _MIN_ALIGNED_RATIO * similarity[[0, -1]].max():
            self._association = _association(sources, targets, (-2, -1, 0, 1, 2))  # most of them are misaligned

    def shifts(self, pairs: list[Pair]) -> NDArray[np.int64]:
        """How many lines below its source each translation is, 0 if it is aligned: [pairs]."""
        sources, targets = ([_words(side) for side in sides] for sides in zip(*pairs, strict=True))
        similarity = self._similarity(sources, targets)
        for line, source in enumerate(sources):  # all translations of a repeated sentence are aligned
            for near in range(max(0, line - _MAX_SHIFT_LINES), min(len(sources), line + _MAX_SHIFT_LINES + 1)):
                if np.array_equal(sources[near], source):
                    similarity[_MAX_SHIFT_LINES + near - line, line] = similarity[_MAX_SHIFT_LINES, line]
        return _without_doubtful_runs(viterbi_path(similarity) - _MAX_SHIFT_LINES, similarity)

    def _similarity(self, sources: list[Words], targets: list[Words]) -> Floats:
        """How well the words of the target this many lines below match some word of the source, on average: from 0 to
        1, [shift, pairs]; 0 where there is none."""
        around = [_NO_WORDS] * _MAX_SHIFT_LINES + targets + [_NO_WORDS] * _MAX_SHIFT_LINES
        similarity = np.zeros((_SHIFTS, len(sources)))
        for line, source in enumerate(sources):
            if len(source):
                window = around[line : line + _SHIFTS]
                best = self._association[source].max(0)[np.concatenate(window)]
                starts = np.cumsum([0, *map(len, window)])[:-1]
                similarity[:, line] = np.add.reduceat(best, starts) / [len(target) for target in window]
        return similarity


def _association(sources: list[Words], targets: list[Words], shifts: tuple[int, ...]) -> NDArray[np.float32]:
    """For words that occur together n times, and c times by chance, n - c - 1 as a share of their total occurrences
    (the geometric mean): [source bucket, target bucket]."""
    together = np.zeros((_BUCKETS, _BUCKETS), np.float32)
    counts = np.zeros((2, _BUCKETS), np.float32)
    for line, source in enumerate(sources):
        counts[0, source] += 1
        counts[1, targets[line]] += 1
        for shift in shifts:
            if 0 <= line + shift < len(targets):
                together[source[:, None], targets[line + shift]] += 1
    chance = np.outer(counts[0], counts[1] * (len(shifts) / len(sources)))
    together -= chance + 1
    together /= np.maximum(np.sqrt(np.outer(*counts)), 1)
    together[:, 0] = 0  # the bucket of sides without words
    return np.maximum(together, 0, out=together)


def viterbi_path(similarity: Floats) -> NDArray[np.int64]:
    """The row of each column that maximises the sum of `similarity`, [shift, pairs], minus the cost of changing rows.

    Viterbi's algorithm; beginning and ending in the middle row is free.
    """
    shifts, lines = similarity.shape
    start = np.full(shifts, -_SHIFT_COST)
    start[shifts // 2] = 0.0
    sums = start + similarity[:, 0]
    came_from = np.zeros((lines, shifts), np.int64)
    for line in range(1, lines):
        best = int(sums.argmax())
        stay = sums >= sums[best] - _SHIFT_COST
        came_from[line] = np.where(stay, np.arange(shifts), best)
        sums = np.where(stay, sums, sums[best] - _SHIFT_COST) + similarity[:, line]
    path = np.empty(lines, np.int64)
    path[-1] = (sums + start).argmax()
    for line in range(lines - 1, 0, -1):
        path[line - 1] = came_from[line, path[line]]
    return path


def _without_doubtful_runs(shifts: NDArray[np.int64], similarity: Floats) -> NDArray[np.int64]:
    """`shifts` without runs that are short, or fit nearly as well unshifted since their sentences are much alike."""
    edges = np.flatnonzero(np.diff(shifts, prepend=0, append=0))
    for begin, end in pairwise(edges.tolist()):
        shift = shifts[begin]
        run = slice(begin, end)
        unshifted = similarity[_MAX_SHIFT_LINES, run].sum()
        shifted = similarity[_MAX_SHIFT_LINES + shift, run].sum()
        if shift and (end - begin < _MIN_RUN_LINES or unshifted > _MAX_UNSHIFTED_SHARE * shifted):
            shifts[run] = 0
    return shifts


def _words(text: str) -> Words:
    """The buckets of the prefixes of a sentence's words, or of its characters if it has no words."""
    words = {match[0][:_PREFIX_CHARS] for match in islice(_WORD.finditer(text.casefold()), _MAX_WORDS)}
    buckets = {1 + zlib.crc32(word.encode()) % (_BUCKETS - 1) for word in words}
    return np.array(sorted(buckets), np.int64) if buckets else _NO_WORDS
