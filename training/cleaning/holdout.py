"""Holds out development pairs so that none of their sentences is in training; compares sentences by key.

Both sides count: a translation that is known from training would inflate the score.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.corpora.corpus import Pair, hash64

Mask = NDArray[np.bool_]
Integers = NDArray[Any]
CODES_PER_PART = 1 << 20
_MAX_PARTS = 32
"""Each part scans all codes: without a bound, ten times the pairs would take a hundred times as long."""


def comparison_key(text: str) -> str:
    """`text` without case, punctuation, symbols and spaces, or only without spaces if nothing else is left.

    Sentences with the same key count as equal.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_LETTER_TABLE) or "".join(text.split())


def sentence_key(text: str) -> int:
    """The 64-bit hash of a sentence's `comparison_key`."""
    return hash64(comparison_key(text))


class _LetterTable(dict[int, str]):
    """A translation table that keeps letters, their marks and numbers, and adds characters as it meets them."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = character if unicodedata.category(character)[0] in "LMN" else ""
        return self[code]


_LETTER_TABLE = _LetterTable()


@dataclass(frozen=True)
class SideKeys:
    """The keys of both sides of many pairs, as 64-bit hashes: [pairs] each."""

    source: Integers
    target: Integers

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> SideKeys:
        source, target = array("q"), array("q")
        for pair in pairs:
            source.append(sentence_key(pair.source))
            target.append(sentence_key(pair.target))
        return cls(np.array(source, np.int64), np.array(target, np.int64))

    def __getitem__(self, chosen: Mask) -> SideKeys:
        return SideKeys(self.source[chosen], self.target[chosen])

    def sharing_a_side(self, others: SideKeys) -> Mask:
        """Which pairs share a side with any of `others`, on either side: [pairs]."""
        keys = np.unique(np.concatenate([others.source, others.target]))
        return _is_in(keys, self.source) | _is_in(keys, self.target)


def default_dev_size(pairs: int, least: int = 1) -> int:
    """A twentieth of the pairs, at most a thousand; or `least` if that is more, but at most a fifth of the pairs."""
    return max(1, min(1000, max(pairs // 20, min(least, pairs // 5))))


def choose_dev_pairs(keys: SideKeys, size: int, seed: int, codes_per_part: int = CODES_PER_PART) -> Mask:
    """Chooses `size` pairs as the development set: [pairs].

    Each chosen pair removes from training all pairs that share a side with it. Therefore, pairs whose sentences occur
    nowhere else are chosen first, in an order drawn from `seed`, and those with many collisions last.
    """
    occurrences = _occurrences(keys.source, codes_per_part) + _occurrences(keys.target, codes_per_part)
    collisions = occurrences - 2  # [pairs], at most
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(collisions))
    cheapest = order[np.argsort(collisions[order], kind="stable")]
    chosen = np.zeros(len(collisions), np.bool_)
    chosen[cheapest[:size]] = True
    return chosen


def _occurrences(keys: Integers, codes_per_part: int) -> Integers:
    """How often the key of each pair occurs: [pairs]."""
    found = np.empty(len(keys), np.int32)
    for part in partitions(keys, codes_per_part):
        _, inverse, counts = np.unique(keys[part], return_inverse=True, return_counts=True)
        found[part] = counts[inverse]
    return found


def _is_in(some: Integers, keys: Integers) -> Mask:
    """Which `keys` are in the sorted `some`: [pairs]."""
    if not len(some):
        return np.zeros(len(keys), np.bool_)
    found: Mask = some[np.searchsorted(some, keys).clip(max=len(some) - 1)] == keys
    return found


def partitions(codes: Integers, codes_per_part: int = CODES_PER_PART) -> Iterator[Integers]:
    """Yields the indices of `codes` in parts, with equal codes in the same part: to sort a part takes little memory."""
    parts = min(len(codes) // codes_per_part + 1, _MAX_PARTS)
    for part in range(parts):
        yield (codes % parts == part).nonzero()[0]
