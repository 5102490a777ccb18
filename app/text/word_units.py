"""The words of a translation, and the source characters that each is aligned to.

Words are detected by their characters, in any language, so that a tag never splits one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from app.markup.passage import OBJECT, AlignedSpan, ProtectedSpan

SPACELESS = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, kana and Han: without spaces between words, tokens serve as words."""
_SPACELESS = re.compile(SPACELESS)
_LETTER = rf"(?:(?!{SPACELESS})[\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff\u200c\u200d])"
_ELIDED = r"['’](?=[AEIOUYHaeiouyhÀÂÄÆÉÈÊËÎÏÔÖŒÙÛÜàâäæéèêëîïôöœùûü])"
"""A word begins after it: l'homme, dell'anno. Not so in don't and it's."""
_WORD = re.compile(
    rf"{SPACELESS}+|{_LETTER}+(?:(?:[-\u2010\u2011]|(?!{_ELIDED})['’]|(?<=\d)[.,:](?=\d)){_LETTER}+)*(?:{_ELIDED})?|\S"
)
_BOUNDARY = re.compile(rf"\s|{SPACELESS}|[\u3000-\u303f\uff00-\uff65]|\Z")
_MAX_MARK_CHARS = 2
"""Characters in a punctuation token, including the space before it."""


class Unit(NamedTuple):
    """The smallest unit that tags may surround: a word, a protected piece, a punctuation mark. Characters [start, end)
    of the translation."""

    start: int
    end: int
    is_word: bool


class UnitAlignment(NamedTuple):
    """The part of an aligned span in one unit: `weight` characters of it are aligned to `source`."""

    unit: int
    source: tuple[int, int]
    weight: int

    @property
    def centre(self) -> int:
        """Centre of the source characters, in half characters, so that it lies in exactly one of several neighbours."""
        return sum(self.source)


class CutWord(NamedTuple):
    """A word of the source that is in two or more pieces: where it begins, and at which of its characters it is cut."""

    start: int
    text: str
    cuts: Sequence[int]
    is_first: bool
    """Whether the sentence begins with it."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class AlignedWords:
    """The translation's units, and their aligned source characters."""

    def __init__(
        self,
        pieces: Sequence[str | ProtectedSpan],
        aligned_spans: Sequence[AlignedSpan],
        cut_words: Sequence[CutWord] = (),
    ) -> None:
        """The translations of `cut_words`, words of the source, are cut like these, as far as they have the same
        characters."""
        self.aligned_spans = aligned_spans
        self.shown = "".join(p if isinstance(p, str) else OBJECT * len(p.raw) for p in pieces)
        self.units = list(units(pieces, sorted({span.target[0] for span in aligned_spans})))
        if cut_words and self.units:
            self.units, aligned_spans = _cut_like_source(self.shown, self.units, aligned_spans, cut_words)
        self.alignments = _unit_alignments(self.units, aligned_spans)
        weights = [0] * len(self.units)
        for unit, _, weight in self.alignments:
            weights[unit] += weight
        self.weight_before = [0, *accumulate(weights)]

    def weight(self, first: int, end: int) -> int:
        """Weight of the units [first, end), in aligned characters."""
        return self.weight_before[end] - self.weight_before[first]

    def is_punctuation(self, first: int, end: int) -> bool:
        """Whether no unit of [first, end) is a word."""
        return not any(self.units[i].is_word for i in range(first, end))


def units(pieces: Iterable[str | ProtectedSpan], cuts: Sequence[int]) -> Iterator[Unit]:
    """The units in order; in scripts without spaces, they end at `cuts`, where tokens begin."""
    offset = 0
    for piece in pieces:
        if isinstance(piece, ProtectedSpan):
            yield Unit(offset, offset := offset + len(piece.raw), True)
            continue
        for found in _WORD.finditer(piece):
            start, end = found.start() + offset, found.end() + offset
            is_word = end - start > 1 or found[0].isalnum()
            if found[0] >= "\u0e00" and _SPACELESS.match(found[0]):
                for cut in cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]:
                    yield Unit(start, start := cut, is_word)
            yield Unit(start, end, is_word)
        offset += len(piece)


def is_word_boundary(neighbour: str) -> bool:
    """Whether a character with this neighbour, or none, is not part of a word with it."""
    return _BOUNDARY.match(neighbour) is not None


def _cut_like_source(
    shown: str, units: Sequence[Unit], aligned_spans: Sequence[AlignedSpan], words: Sequence[CutWord]
) -> tuple[list[Unit], list[AlignedSpan]]:
    """The units and spans of a translation, in which a unit that translates one of `words` is cut like it."""
    starts = [word.start for word in words]

    def word_at(source: tuple[int, int]) -> CutWord | None:
        """The word that has the centre of these characters."""
        number = bisect_right(starts, sum(source) / 2) - 1
        return words[number] if number >= 0 and sum(source) < 2 * words[number].end else None

    weights = {start: Counter[int]() for start in starts}
    for one in _unit_alignments(units, aligned_spans):
        if word := word_at(one.source):
            weights[word.start][one.unit] += one.weight
    same: dict[str, list[int]] = {}
    for number, unit in reversed(list(enumerate(units))):
        if unit.is_word:
            same.setdefault(shown[unit.start : unit.end].casefold(), []).append(number)
    pieces: dict[int, list[AlignedSpan]] = {}
    for word, aligned in zip(words, weights.values(), strict=True):
        equal = same.get(word.text.casefold())
        number = equal.pop() if equal else max(aligned, key=lambda unit: (aligned[unit], -unit), default=-1)
        if word.is_first and not equal and word.cuts[0] == 1 and word.text[0].isalpha():
            number = next((number for number, unit in enumerate(units) if unit.is_word), -1)  # a drop cap
        if number >= 0 and number not in pieces:
            unit = units[number]
            parts = list(_cut_unit(shown[unit.start : unit.end], unit, word))
            # The rest of a word that a drop cap begins may translate others.
            pieces[number] = parts if equal or number in aligned else parts[:1]
    cut = {bisect_right(starts, part.source[0]) for parts in pieces.values() for part in parts}
    sources = list[tuple[int, int]]()
    for source, (start, end) in aligned_spans:
        # What else translates a word that is cut translates no piece of it.
        whole = (word := word_at(source)) and bisect_right(starts, word.start) in cut
        sources += [(word.start, word.end) if word and whole else source] * (end - start)
    found = list[Unit]()
    for number, unit in enumerate(units):
        at = unit.start
        for source, (start, at) in pieces.get(number, []):
            found.append(Unit(start, at, unit.is_word))
            sources[start:at] = [source] * (at - start)
        if at < unit.end or not pieces.get(number):
            found.append(unit._replace(start=at))
    at = 0
    runs = ((source, at, at := at + len(list(run))) for source, run in groupby(sources))
    return found, [AlignedSpan(source, (start, end)) for source, start, end in runs]


def _cut_unit(text: str, unit: Unit, word: CutWord) -> Iterator[AlignedSpan]:
    """The pieces of a unit with these characters, aligned to those of `word`: all if it is the same word, or else
    those at its beginning and end that are the same, and the rest."""
    first, last = word.text[: word.cuts[0]], word.text[word.cuts[-1] :]
    cuts = sources = list(word.cuts)
    if text.casefold() != word.text.casefold():
        is_initial = len(first) == 1 and first.isalpha() and text[:1].isalpha()
        low = len(first) if is_initial or text.casefold().startswith(first.casefold()) else 0
        high = len(last) if text.casefold().endswith(last.casefold()) and not (low and len(word.cuts) == 1) else 0
        if not 0 < low + high < len(text):
            return
        cuts = [*[low] * (low > 0), *[len(text) - high] * (high > 0)]
        sources = [*[low] * (low > 0), *[word.cuts[-1]] * (high > 0)]
    pairs = zip(pairwise([0, *sources, len(word.text)]), pairwise([0, *cuts, len(text)]), strict=True)
    for (first_source, end_source), (start, end) in pairs:
        source = word.start + first_source, word.start + end_source
        yield AlignedSpan(source, (unit.start + start, unit.start + end))


def is_spaced(character: str) -> bool:
    """Whether its script has spaces between words."""
    return _SPACELESS.match(character) is None


def _unit_alignments(units: Sequence[Unit], aligned_spans: Sequence[AlignedSpan]) -> list[UnitAlignment]:
    """The alignments in order of units.

    Leaves out spans without information: those to the end of the sentence, and from a punctuation mark to a word.
    """
    found: list[UnitAlignment] = []
    i = 0
    for source, (start, end) in aligned_spans:
        if source[0] == source[1]:
            continue
        while i < len(units) and units[i].end <= start:
            i += 1
        for j in range(i, len(units)):
            first, last, _ = units[j]
            if first >= end:
                break
            found.append(UnitAlignment(j, source, min(end, last) - max(start, first)))
    of_words = {one.source for one in found if units[one.unit].is_word}
    marks = {(start, end) for (start, end), _ in aligned_spans if end - start <= _MAX_MARK_CHARS} - of_words
    return [one for one in found if units[one.unit].is_word or one.source in marks]
