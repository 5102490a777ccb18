"""Puts a glossary's terms into a translation: replaces the words aligned to a term, and decodes the rest again.

Symbols in place of the terms would be more reliable, but a model cannot build a sentence around a word that it does not
see: docs/glossaries.md has the figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec import structs

from app.engine import sequence as engine
from app.markup.passage import OBJECT, ProtectedSpan
from app.text.number_forms import with_plain_spaces
from app.text.numbers import AS_WRITTEN, count_numbers, normal_number
from app.text.word_units import AlignedWords
from app.translation.candidate import Candidate
from app.translation.sentence import Sentence

MAX_ARTICLE_LETTERS = 3
"""Maximum for a word before another to count as its article or preposition, which stays before the term."""
MIN_TOKENS_AFTER_TERM = 16
"""How far a sentence may continue after its last term, whatever its own limit is."""


class Replacement(NamedTuple):
    """Characters [start, end) of a translation to replace with `text`."""

    start: int
    end: int
    text: str


def retry_with_terms(candidate: Candidate) -> Sentence | None:
    """The sentence to decode again so that the translation has all its terms; None if it has, or nothing more can be
    done."""
    sentence = candidate.sentence
    terms = missing_terms(candidate)
    if not (terms and sentence.protectable_terms()):
        return None
    again = None if sentence.sequence.prefix else sequence_with_terms(candidate, terms)
    if again:
        return structs.replace(sentence, sequence=again)
    return sentence.with_protected_terms()  # all, since the new translation may lack terms that this one has


def missing_terms(candidate: Candidate) -> list[ProtectedSpan]:
    """Terms of the sentence that are missing from its translation, or occur too rarely.

    Text that is protected for another reason does not count: "{21}" is not the number 21.
    """
    sentence = candidate.sentence
    if not sentence.terms:
        return []
    if sentence.passage.protected:
        places = {term.start for term in sentence.terms}
        text = "".join(p if isinstance(p, str) else p.raw if p.start in places else OBJECT for p in candidate.pieces)
    else:
        text = candidate.plain_text
    numbers = count_numbers(text)
    counts = {term.raw: _count_occurrences(term.raw, text, numbers) for term in sentence.terms}
    missing: list[ProtectedSpan] = []
    for term in sentence.terms:
        if counts[term.raw] <= 0:
            missing.append(term)
        counts[term.raw] -= 1
    return missing


def _count_occurrences(given: str, text: str, numbers: Counter[str]) -> int:
    """How often `given`, a term or a number, occurs in `text`, which has these `numbers`: as whole words if it begins
    and ends with a letter."""
    if AS_WRITTEN.fullmatch(given):
        return numbers[normal_number(given)]
    begin, end = (r"\b" if character.isalnum() and character.isascii() else "" for character in (given[0], given[-1]))
    return len(re.findall(f"{begin}{re.escape(given)}{end}", text, re.IGNORECASE))


def sequence_with_terms(candidate: Candidate, terms: Sequence[ProtectedSpan]) -> engine.Sequence | None:
    """The sequence to decode again, whose prefix has each of `terms` in the place of the words aligned to it.

    The prefix is the translation up to the last term. Returns None if a term has no aligned words, or if the prefix
    leaves too little room for the rest.
    """
    sentence, words = candidate.sentence, candidate.aligned_words
    replacements: list[Replacement] = []
    taken = set[int]()
    for term in terms:
        run = _aligned_run(words, term, taken)
        if run is None:
            return None
        taken.update(range(run[0], run[1] + 1))
        given = with_plain_spaces(term.raw) if AS_WRITTEN.fullmatch(term.raw) else term.raw
        if run[0] == 0 and sentence.passage.text[:1].isupper():
            given = given[:1].upper() + given[1:]
        replacements.append(Replacement(words.units[run[0]].start, words.units[run[1]].end, given))
    replacements.sort()
    sequence, tokenizer = sentence.sequence, sentence.bundle.target_tokenizer
    prefix = tuple(tokenizer.encode_parts(list(_prefix_parts(candidate, replacements))))
    needed = len(prefix) + len(sequence.required) + MIN_TOKENS_AFTER_TERM
    limit = min(sentence.bundle.limits.max_target, max(sequence.limit, needed))
    if len(prefix) + sum(symbol not in prefix for symbol in sequence.required) > limit:
        return None
    return structs.replace(sequence, limit=limit, prefix=prefix)


def _aligned_run(words: AlignedWords, term: ProtectedSpan, taken: set[int]) -> tuple[int, int] | None:
    """The first and last word of the run that attends to `term` most, without the units in `taken`."""
    within, outside = dict[int, int](), dict[int, int]()
    for unit, (start, end), weight in words.alignments:
        weights = within if start < term.end and end > term.start else outside
        weights[unit] = weights.get(unit, 0) + weight
    units = [
        unit
        for unit in sorted(within)
        if within[unit] >= outside.get(unit, 0) and words.units[unit].is_word and unit not in taken
    ]
    runs = [[unit for _, unit in run] for _, run in groupby(enumerate(units), key=lambda pair: pair[1] - pair[0])]
    if not runs:
        return None
    best = max(runs, key=lambda run: sum([within[unit] for unit in run]))
    first, last = best[0], best[-1]
    while first < last and _letter_count(words, first) <= MAX_ARTICLE_LETTERS and _is_separate_word(words, first):
        first += 1
    return first, last


def _letter_count(words: AlignedWords, unit: int) -> int:
    start, end, _ = words.units[unit]
    return len(words.shown[start:end].rstrip("'’"))


def _is_separate_word(words: AlignedWords, unit: int) -> bool:
    """Whether a space or an apostrophe separates the unit from the next; in scripts without spaces none does."""
    end, start = words.units[unit].end, words.units[unit + 1].start
    return end < start or words.shown[end - 1] in "'’"


def _prefix_parts(candidate: Candidate, replacements: Sequence[Replacement]) -> Iterator[str | int]:
    """The translation up to the last replacement, with all of them made, and numbers for protected spans."""
    at = 0
    end = replacements[-1].end
    for piece in candidate.pieces:
        length = len(piece) if isinstance(piece, str) else len(piece.raw)
        if at >= end:
            return
        if isinstance(piece, ProtectedSpan):
            places = [one.start for one in candidate.sentence.passage.protected]
            yield places.index(piece.start)  # its `raw` may have got a capital
        else:
            yield from _replaced(piece, at, [p for p in replacements if p.start < at + length and p.end > at], end)
        at += length


def _replaced(piece: str, offset: int, replacements: Sequence[Replacement], end: int) -> Iterator[str]:
    done = 0
    for one in replacements:
        yield piece[done : one.start - offset] + one.text
        done = one.end - offset
    yield piece[done : max(done, end - offset)]
