"""Keeps tags inside or against a word with it: H<sub>2</sub>O, first<sup>1</sup>, an address that is cut into spans.

A formula, a unit or a name with tags inside is protected, tags included, and a footnote's number becomes a mark of its
word. Tags in other words are placed as all others are (`app.text.tag_projection`).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from operator import attrgetter
from typing import NamedTuple

from app.markup.passage import Passage, ProtectedSpan, Tag, tag_pairs
from app.markup.render import render_source
from app.text.word_units import SPACELESS, is_spaced

_RUN = re.compile(rf"(?:(?!{SPACELESS})\S)++")
_WORD = re.compile(rf"(?:(?!{SPACELESS})[^\W_])+")
_FOOTNOTE = re.compile(r"[\[(]?(?=[^\])]*[\d*†‡§¶®™©℠+−])[\d*†‡§¶®™©℠+−–,.-]+[\])]?")
_LETTERED = re.compile(r"[a-z](?:,[a-z])*|i{2,3}|iv|vi{1,3}|ix")
"""A footnote that has letters, after an ordinary word: not the end of an abbreviation or an ordinal."""
_ORDINARY = re.compile(r"(?:[^\W\d_A-Z]{3}|(?=[^\W\d_])" + SPACELESS + r")[.,;:!?…)»”’\"']?\Z")
_SUPERSCRIPT = re.compile(r"<(?:\w+:)?sup\b", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")
_OPERATORS = re.compile(r"[/=·×*^+−-]*")
_BASE = re.compile(r"[^\W_]++(?:[/=·×*^+−-][^\W_]++)*+\Z")
_SYMBOL = re.compile(
    r".*[/=·×*^+−-].*|.*[A-Z].*[A-Z].*|\d+|(?:.*\d)?(?:[^\W\d_]|[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZµ]{1,4})"
)
"""A unit, a variable, an element, an acronym, a number, or several of these."""
_TRADEMARK, _CHARGE = re.compile("[®™℠]"), re.compile("[+−]")
_INNER_DIGIT, _INNER_CAPITAL = re.compile(r"[^\W\d_]\d+[^\W\d_]"), re.compile(r"[a-z][A-Z]")
_NUMBERED = re.compile(r"\d+[^\W\d_]+")
"""An ordinal, or a number with its unit: its letters may be translated."""
_SUBSCRIPT = re.compile(r"<sub\b", re.IGNORECASE)
_PUNCTUATION = ".,;:!?…)]}»”’\"'"
_MAX_BASE_CHARS = 40
_MAX_ACRONYM_LETTERS = 5
_MAX_RUN_TAGS = 64
"""Characters without a space that have more tags are left as they are."""

_start_of, _end_of = attrgetter("start"), attrgetter("end")


class _Element(NamedTuple):
    """Characters [start, end), and the indices of the two tags around them."""

    start: int
    end: int
    opening: int
    closing: int


class _Fold(NamedTuple):
    """Characters [start, end) to protect together with the tags inside."""

    start: int
    end: int
    raw: str = ""
    """What to write for them if there are no tags inside."""
    mark: tuple[int, int] | None = None
    """The indices [low, high) of their tags if they become a mark, which is not in the text."""


def keep_word_tags(passage: Passage) -> Passage:
    """`passage`, in which words that have tags inside and are no ordinary ones are protected, and footnotes are
    marks."""
    text, length = passage.text, len(passage.text)
    inside = (tag.at for tag in passage.tags if tag.kind != "mark" and 0 < tag.at < length)
    if not any(not (text[at - 1].isspace() or text[at].isspace()) for at in inside):
        return passage
    places = [tag.at for tag in passage.tags]
    elements = sorted(_Element(places[i], places[j], i, j) for i, j in tag_pairs(passage.tags))
    starts = [one.start for one in elements]
    folds: list[_Fold] = []
    for run in _RUN.finditer(passage.text):
        start, end = run.span()
        start -= start > 0 and not is_spaced(passage.text[start - 1])
        count = bisect_left(places, end) - bisect_right(places, start)
        if 0 < count <= _MAX_RUN_TAGS:
            near = elements[bisect_left(starts, start) : bisect_left(starts, end)][: 2 * _MAX_RUN_TAGS]
            folds += _Run(passage, start, end, [one for one in near if one.start < one.end <= end]).folds()
    return _folded(passage, folds)


def with_protected(passage: Passage, spans: Sequence[ProtectedSpan]) -> Passage:
    """`passage` with `spans` protected, too, which are in order and have their `raw` encoded.

    The tags inside one, such as an address in spans, become part of it, and so do tags around nothing else. It is left
    out if they pair with tags outside, or if it overlaps what is protected already.
    """
    folds = [_Fold(one.start, one.end, one.raw) for one in spans]
    if passage.tags:
        places = [tag.at for tag in passage.tags]
        inside = ((bisect_right(places, fold.start), bisect_left(places, fold.end)) for fold in folds)
        folds = [
            fold
            for fold, (low, high) in zip(folds, inside, strict=True)
            if not _are_words(passage.text[fold.start : fold.end], passage.tags[low:high])
        ]
    return _folded(passage, folds)


def _are_words(run: str, tags: Sequence[Tag]) -> bool:
    """Whether `run`, which has `tags` inside, may be several words that only a page's style separates: each in an
    element."""
    beside = {tag.at for tag in tags if tag.kind == "close"} & {tag.at for tag in tags if tag.kind == "open"}
    return bool(beside) and run.isalnum()


def _folded(passage: Passage, folds: Sequence[_Fold]) -> Passage:
    """`passage` without the tags in `folds`, which are in order; those that overlap anything are left out."""
    if not folds:
        return passage
    mates = {tag: mate for pair in tag_pairs(passage.tags) for tag, mate in (pair, pair[::-1])}
    places = [tag.at for tag in passage.tags]
    kept, tags, protected = list[_Fold](), list[Tag](), list[ProtectedSpan]()
    done = 0
    for fold in folds:
        low, high = bisect_right(places, fold.start), bisect_left(places, fold.end)
        bounds = fold.mark or _paired_tags(passage.tags, mates, low, high, fold)
        if bounds is None or bounds[0] < done or _overlaps(passage.terms, fold, False):
            continue
        if _overlaps(passage.protected, fold, bounds[0] < bounds[1]):
            continue
        kept.append(fold)
        raw = _render(passage, fold, *bounds) if bounds[0] < bounds[1] else fold.raw
        if bounds[0] < bounds[1]:
            tags += passage.tags[done : bounds[0]]
            done = bounds[1]
        if fold.mark:
            tags.append(Tag(fold.start, raw))
        else:
            protected.append(ProtectedSpan(fold.start, fold.end, raw))
    tags += passage.tags[done:]
    others = [one for one in passage.protected if not _overlaps(kept, one, False)]
    return without_characters(
        replace(passage, protected=tuple(sorted([*others, *protected])), tags=tuple(tags)),
        [(fold.start, fold.end) for fold in kept if fold.mark],
    )


def _overlaps(spans: Sequence[ProtectedSpan] | Sequence[_Fold], one: ProtectedSpan | _Fold, may_contain: bool) -> bool:
    """Whether `one` and any of `spans`, which are in order, have a character in common. `may_contain`: those inside it
    do not count."""
    for i in range(bisect_right(spans, one.start, key=_end_of), len(spans)):
        if spans[i].start >= one.end:
            return False
        if not (may_contain and one.start <= spans[i].start and spans[i].end <= one.end):
            return True
    return False


def _paired_tags(
    tags: Sequence[Tag], mates: Mapping[int, int], low: int, high: int, fold: _Fold
) -> tuple[int, int] | None:
    """The indices [low, high) of the tags in a fold, with those at its ends that pair with them or each other; None if
    tags inside pair with tags outside."""
    inside = range(low, high)
    for i in inside:
        mate = mates.get(i, i)
        if not fold.start <= tags[mate].at <= fold.end:
            return None
        low, high = min(low, mate), max(high, mate + 1)
    while True:  # elements around nothing else, but perhaps an empty one at the end
        last = high
        while mates.get(last) == last + 1 and tags[last].at == tags[last + 1].at == fold.end:
            last += 2
        if mates.get(low - 1) != last or (tags[low - 1].at, tags[last].at) != (fold.start, fold.end):
            break
        low, high = low - 1, last + 1
    ends = chain(range(low, inside.start), range(inside.stop, high))
    return (low, high) if all(low <= mates.get(i, i) < high for i in ends) else None


def _render(passage: Passage, fold: _Fold, low: int, high: int) -> str:
    """What is written for the fold, with the tags [low, high)."""
    tags = tuple(tag._replace(at=tag.at - fold.start) for tag in passage.tags[low:high])
    first, end = (bisect_left(passage.protected, at, key=_start_of) for at in (fold.start, fold.end))
    inside = tuple(one.moved(-fold.start) for one in passage.protected[first:end])
    return render_source(Passage(passage.text[fold.start : fold.end], inside, tags, passage.write))


def without_characters(passage: Passage, removed: Sequence[tuple[int, int]]) -> Passage:
    """`passage` without the characters `removed`, in order, which have no tags inside and no protected text."""
    if not removed:
        return passage
    starts = [start for start, _ in removed]
    before = [0, *accumulate(end - start for start, end in removed)]
    edges = [0, *chain.from_iterable(removed), len(passage.text)]

    def moved(at: int) -> int:
        return at - before[bisect_left(starts, at)]

    def moved_span(one: ProtectedSpan) -> ProtectedSpan:
        return one._replace(start=moved(one.start), end=moved(one.end))

    return replace(
        passage,
        text="".join(passage.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)),
        protected=tuple(map(moved_span, passage.protected)),
        terms=tuple(map(moved_span, passage.terms)),
        tags=tuple(tag._replace(at=moved(tag.at)) for tag in passage.tags),
    )


class _Run:
    """Characters [start, end) of a passage, without a space, that have tags inside; `elements` are within, in order."""

    def __init__(self, passage: Passage, start: int, end: int, elements: Sequence[_Element]) -> None:
        self.text, self.tags, self.start, self.end, self.elements = passage.text, passage.tags, start, end, elements

    def folds(self) -> list[_Fold]:
        if not _LETTER.search(self.text, self.start, self.end):
            return self._number()
        found, done = list[_Fold](), self.start
        for first, last in self._footnotes():
            if first.start >= done and (fold := self._footnote(first, last, done)):
                found += [*self._codes(done, fold.start), fold]
                done = fold.end
        return self._joined([*found, *self._codes(done, self.end)])

    def _joined(self, folds: Sequence[_Fold]) -> list[_Fold]:
        """The folds, formulas as a whole."""
        found = list[_Fold]()
        for fold in folds:
            is_first = not found or found[-1].mark or fold.mark
            if is_first or not _OPERATORS.fullmatch(self.text, found[-1].end, fold.start):
                found.append(fold)
            else:
                found[-1] = found[-1]._replace(end=fold.end)
        return found

    def _number(self) -> list[_Fold]:
        """A number, a range, an amount, without the punctuation after it."""
        end = self.start + len(self.text[self.start : self.end].rstrip(_PUNCTUATION.replace(")", "")))
        inside = any(self.start < one.start < end or self.start < one.end < end for one in self.elements)
        has_digit = any(map(str.isdigit, self.text[self.start : end]))
        return [_Fold(self.start, end)] if inside and has_digit else []

    def _footnotes(self) -> Iterator[tuple[_Element, _Element]]:
        """The first and last of elements directly one after another that seem to be footnotes, directly after a
        character."""
        group: list[_Element] = []
        for one in self.elements:
            if group and one.start < group[-1].end:
                continue  # inside it
            if group and one.start > group[-1].end:
                yield group[0], group[-1]
                group = []
            if one.start > self.start and self._is_footnote(one, (group or [one])[0].start):
                group.append(one)
            elif group:
                group = []  # a word follows
        if group:
            yield group[0], group[-1]

    def _is_footnote(self, one: _Element, word_end: int) -> bool:
        if _FOOTNOTE.fullmatch(self.text, one.start, one.end):
            return True
        is_lettered = _SUPERSCRIPT.match(self.tags[one.opening].raw) and _LETTERED.fullmatch(
            self.text, one.start, one.end
        )
        return bool(is_lettered and _ORDINARY.search(self.text[max(0, word_end - 4) : word_end]))

    def _footnote(self, first: _Element, last: _Element, low: int) -> _Fold | None:
        """A mark for footnotes of a word; a unit with its exponent, or a name with its sign, as a whole."""
        text, content = self.text, self.text[first.start : last.end]
        if text[last.end : last.end + 1].isalnum() and is_spaced(text[last.end]):
            return None
        base = _BASE.search(text[max(low, first.start - _MAX_BASE_CHARS) : first.start])
        mark = _Fold(first.start, last.end, mark=(first.opening, last.closing + 1))
        if base is None:
            before = text[low : first.start]
            ends_word = _LETTER.search(before[-2:]) or (len(before) == 1 and low > self.start)
            return mark if before[-1:] in _PUNCTUATION and ends_word else None
        if not is_spaced(base[0][-1]):
            return mark
        is_code = _SYMBOL.fullmatch(base[0]) or _TRADEMARK.search(content) or _CHARGE.search(content)
        if is_code or _SUBSCRIPT.match(self.tags[first.opening].raw):
            return _Fold(first.start - len(base[0]), last.end)
        return mark

    def _codes(self, low: int, high: int) -> Iterator[_Fold]:
        """The words in [low, high) that have tags inside and are no ordinary words."""
        done = low
        for word in _WORD.finditer(self.text, low, high):
            start, end = word.span()
            inside = [i for one in self.elements for i in one[2:] if start < self.tags[i].at < end]
            if start < done or not inside or not self._is_code(word[0], start, inside):
                continue
            for one in self.elements:
                if one.start < end < one.end <= high:
                    end = one.end
            yield _Fold(start, end)
            done = end

    def _is_code(self, word: str, start: int, inside: Sequence[int]) -> bool:
        tags = [self.tags[i] for i in inside]
        if any(_SUBSCRIPT.match(tag.raw) for tag in tags):
            return True
        if not word.isalpha():
            letters = word.rstrip("0123456789")
            is_symbol = _SYMBOL.fullmatch(letters) or _INNER_DIGIT.search(word)
            return not _NUMBERED.fullmatch(word) and is_symbol is not None
        if _are_words(word, tags):
            return False
        if word[0].islower() and any(tag.at == start + 1 and tag.kind == "open" for tag in tags):
            return True
        is_acronym = word.isupper() and len(word) <= _MAX_ACRONYM_LETTERS and not self.text.isupper()
        return is_acronym or _INNER_CAPITAL.search(word) is not None
