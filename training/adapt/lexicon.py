"""A lexicon of tokens: which of a parent's tokens translate a new one, from pairs of its language and the parent's.

It is the idea of Minixhofer et al. (2022, "WECHSEL") that rows of an embedding start from translations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.align.statistical import LONGEST, align

_MIN_COUNT = 3
_MOST, _LEAST_SHARE, _LEAST_OF_BEST = 6, 0.05, 0.1
"""Translations of a token: so many, each with this probability at least, and this share of the best one's."""


@dataclass(frozen=True)
class Translations:
    """The parent's `tokens` that translate a token, and the `probabilities` of each, which sum to 1. `share`: how many
    of the token's occurrences are in the new language; the others are in the one that the parent knows."""

    tokens: list[int]
    probabilities: list[float]
    share: float


Lexicon = Mapping[int, Translations]


@dataclass(frozen=True)
class AlignedPair:
    """Token ids of a pair: `new` in the new language, `known` the same in the language that the parent knows, both in
    the new vocabulary; `parents` the translation of `known` in the parent's other language, in its vocabulary."""

    new: Sequence[int]
    known: Sequence[int]
    parents: Sequence[int]


def lexicon(pairs: Sequence[AlignedPair], vocab_size: int, parent_vocab_size: int) -> dict[int, Translations]:
    """The lexicon of the tokens that occur often enough in `pairs`, by token of the new vocabulary."""
    found: dict[int, Translations] = {}
    known = _counts([pair.known for pair in pairs], vocab_size)
    usable = [pair for pair in pairs if 0 < len(pair.new) <= LONGEST and 0 < len(pair.parents) <= LONGEST]
    if not usable:
        return found
    types, counts, _ = align([(pair.new, pair.parents) for pair in usable], parent_vocab_size)
    new, parents = np.divmod(types, parent_vocab_size)
    occurrences = np.bincount(new, counts, vocab_size)
    ends = np.searchsorted(new, np.arange(vocab_size + 1))
    for token in np.flatnonzero(occurrences >= _MIN_COUNT).tolist():
        its = slice(ends[token], ends[token + 1])
        probabilities = counts[its] / occurrences[token]
        best = np.argsort(-probabilities, kind="stable")[:_MOST]
        best = best[probabilities[best] >= max(_LEAST_SHARE, _LEAST_OF_BEST * probabilities[best[0]])]
        if len(best):
            chosen = probabilities[best]
            share = occurrences[token] / (occurrences[token] + known[token])
            found[token] = Translations(parents[its][best].tolist(), (chosen / chosen.sum()).tolist(), float(share))
    return found


def _counts(sequences: Sequence[Sequence[int]], vocab_size: int) -> NDArray[np.int64]:
    return np.bincount(np.array([id for sequence in sequences for id in sequence], np.int64), minlength=vocab_size)
