"""Aligns the words of a plain text with the words of its translation.

Words are the units of app/text/word_units.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import NamedTuple

from app.markup.passage import with_insertions
from app.text.word_units import Unit, units
from app.translation.planned_sentence import Translation
from app.translation.text_plan import TextPlan

_end_of = attrgetter("end")
_start_of = attrgetter("start")


class WordPair(NamedTuple):
    """A word of the text and a word of its translation, each as code points [start, end)."""

    source: tuple[int, int]
    target: tuple[int, int]


def word_pairs(plan: TextPlan, length: Callable[[str], int] = len) -> list[WordPair]:
    """The aligned words of a plain text, in target order. The sentences must be decoded.

    `length`: how many characters of the translation a part of it counts as.
    """
    found: list[WordPair] = []
    for sentence, at in plan.rendered_sentences(length):
        found += _sentence_pairs(sentence.translation, at, length)
    return found


def _sentence_pairs(translation: Translation, at: int, length: Callable[[str], int]) -> Iterator[WordPair]:
    """The aligned words of a sentence, whose translation begins at `at`."""
    if translation.origin == "source":
        return
    sentence, best = translation.sentence, translation.best
    inserted = [(one.start, length(one.raw) - (one.end - one.start)) for one in best.insertions]
    target = best.aligned_words
    source = units(sentence.source_pieces(), sorted({start for start, _ in sentence.source_spans}))
    words = [unit for unit in source if unit.is_word]
    aligned: dict[tuple[Unit, Unit], None] = {}
    for number, (start, end), _ in target.alignments:
        if (unit := target.units[number]).is_word:
            for word in words[bisect_right(words, start, key=_end_of) : bisect_left(words, end, key=_start_of)]:
                aligned[word, unit] = None
    for word, unit in aligned:
        first, last = sentence.text_span((word.start, word.end))
        start, end = with_insertions((unit.start, unit.end), inserted)
        yield WordPair((first + sentence.start, last + sentence.start), (start + at, end + at))
