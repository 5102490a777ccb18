"""A lexicon of tokens: which of a parent's tokens translate a new one, from pairs of its language and the parent's.

Tokens are aligned by IBM Model 1 (Brown et al. 1993, "The Mathematics of Statistical Machine Translation") with the
prior for the diagonal of Dyer et al. (2013, "A Simple, Fast, and Effective Reparameterization of IBM Model 2"). It is
the idea of Minixhofer et al. (2022, "WECHSEL") that rows of an embedding start from translations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LONGEST = 80
"""Tokens of a side; longer pairs, which say little about each token and take much memory, are left out."""
_ROUNDS = 6
_TENSION = 6.0
"""How much likelier a token is aligned to one at the same share of the sentence."""
_UNSEEN = 2.0
"""Added to the count of every parent token, or one that occurs once would explain its whole sentence (Moore 2004)."""
_MIN_COUNT = 3
_MOST, _LEAST_SHARE, _LEAST_OF_BEST = 6, 0.05, 0.1
"""Translations of a token: so many, each with this probability at least, and this share of the best one's."""

Integers = NDArray[np.int64]


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
    types, counts = _align(usable, parent_vocab_size)
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


def _align(pairs: Sequence[AlignedPair], parent_vocab_size: int) -> tuple[Integers, NDArray[Any]]:
    """Every two tokens that occur together, as token times `parent_vocab_size` plus parent's token, in order; and how
    often they are expected to be aligned."""
    together, prior = (np.concatenate(parts) for parts in zip(*_candidates(pairs, parent_vocab_size), strict=True))
    types, kind = np.unique(together, return_inverse=True)
    # The candidates of one token are neighbours.
    sizes = np.repeat([len(pair.parents) for pair in pairs], [len(pair.new) for pair in pairs])
    token = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    parent = types % parent_vocab_size
    probability = np.ones(len(types), np.float32)
    for _ in range(_ROUNDS):
        weight = prior * probability[kind]
        weight /= np.bincount(token, weight)[token]
        counts = np.bincount(kind, weight)
        probability = (counts / (np.bincount(parent, counts)[parent] + _UNSEEN)).astype(np.float32)
    return types, counts


def _candidates(pairs: Sequence[AlignedPair], parent_vocab_size: int) -> Iterator[tuple[Integers, NDArray[np.float32]]]:
    """For each pair, every two of its tokens, and the prior that they are aligned."""
    for pair in pairs:
        new, parents = np.array(pair.new, np.int64), np.array(pair.parents, np.int64)
        apart = np.abs(np.arange(len(new))[:, None] / len(new) - np.arange(len(parents)) / len(parents))
        prior = np.exp(-_TENSION * apart)
        prior /= prior.sum(1, keepdims=True)
        yield (new[:, None] * parent_vocab_size + parents).ravel(), prior.astype(np.float32).ravel()


def _counts(sequences: Sequence[Sequence[int]], vocab_size: int) -> NDArray[np.int64]:
    return np.bincount(np.array([id for sequence in sequences for id in sequence], np.int64), minlength=vocab_size)
