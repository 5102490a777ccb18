"""Chooses the sentences of a corpus that are most like those of a field.

Moore and Lewis 2010, "Intelligent Selection of Language Model Training Data": a sentence's cross entropy by a model of
the field, minus that by a model of the corpus itself. Bigrams of words suffice to tell news from minutes.
"""

from __future__ import annotations

import heapq
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

GENERAL_SENTENCES = 60_000
"""Sentences of the corpus, drawn at random, that stand for the whole."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+|\d+|[^\w\s]")
"""A word, a number, a mark, or a single ideograph or kana."""
_START = ""
_UNIGRAM_PRIOR, _BIGRAM_PRIOR = 2000.0, 20.0
"""Words for which the broader distribution counts, in a Dirichlet prior (MacKay and Peto 1995)."""
_LENGTH_PRIOR = 3
"""Words that are added to each length, so that a sentence of one rare word does not come first."""


@dataclass(frozen=True)
class _Bigrams:
    words: Counter[str]
    pairs: Counter[tuple[str, str]]
    before: Counter[str]
    """How often each word, or a sentence's start, comes before another."""

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> _Bigrams:
        words, pairs, before = Counter[str](), Counter[tuple[str, str]](), Counter[str]()
        for sentence in sentences:
            words.update(sentence)
            pairs.update(pairwise([_START, *sentence]))
            before.update([_START, *sentence[:-1]])
        return cls(words, pairs, before)


class Likeness:
    """How much more like the sentences of a field a sentence is than like the corpus, in nats a word."""

    def __init__(self, field: Iterable[str], general: Iterable[str]) -> None:
        self._field, self._general = (_Bigrams.of(map(words_of, sentences)) for sentences in (field, general))
        self._totals = self._field.words.total(), self._general.words.total()
        self._known = len(self._field.words.keys() | self._general.words.keys()) + 1

    def __call__(self, sentence: str) -> float:
        words = words_of(sentence)
        nats = 0.0
        for before, word in pairwise([_START, *words]):
            both = self._field.words[word] + self._general.words[word]
            broad = (both + 1) / (sum(self._totals) + self._known)
            nats += math.log(self._probability(0, before, word, broad) / self._probability(1, before, word, broad))
        return nats / (len(words) + _LENGTH_PRIOR)

    def _probability(self, which: int, before: str, word: str, broad: float) -> float:
        model = (self._field, self._general)[which]
        alone = (model.words[word] + _UNIGRAM_PRIOR * broad) / (self._totals[which] + _UNIGRAM_PRIOR)
        return (model.pairs[before, word] + _BIGRAM_PRIOR * alone) / (model.before[before] + _BIGRAM_PRIOR)


def words_of(sentence: str) -> list[str]:
    """The words, numbers and marks of a sentence in lower case; ideographs one by one."""
    return _WORD.findall(sentence.lower())


def most_like(field: Iterable[str], corpus: Iterable[tuple[int, str]], count: int, seed: int = 1) -> set[int]:
    """The numbers of the `count` sentences of `corpus` that are most like those of `field`.

    `corpus`: numbers and sentences, which can be iterated twice.
    """
    drawn = random.Random(seed)
    general: list[str] = []
    for place, (_, sentence) in enumerate(corpus):  # reservoir sampling (Vitter 1985, algorithm R)
        if place < GENERAL_SENTENCES:
            general.append(sentence)
        elif (slot := drawn.randrange(place + 1)) < GENERAL_SENTENCES:
            general[slot] = sentence
    likeness = Likeness(field, general)
    return {number for _, number in heapq.nlargest(count, ((likeness(text), number) for number, text in corpus))}
