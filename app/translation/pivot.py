"""Translates through another language: the first of two translations, and the passages that the second one starts from.

The first translation is a plan like any other, except that markup and protected text are replaced by marks, which the
model does not see. Its result is cut at the marks into passages again, which have the same markup and protected text in
their new places.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

from app.markup.passage import NestedPassage, Passage, Piece, ProtectedSpan, Tag, write_plain
from app.text.glossary import Glossary, merge_spans
from app.text.placeholders import is_nesting
from app.translation.alignment import WordPair, word_pairs
from app.translation.sentence import Sentence
from app.translation.terminology import usable_terms
from app.translation.text_plan import Label, TextPlan, plan_text, protected_spans
from model.bundle import Bundle

_BEGIN, _END, _ZERO = "\ufdd4", "\ufdd5", 0xFDD6
"""Noncharacters, which Unicode reserves for a process's internal use: ends of a mark, and its first hexadecimal
digit."""
_MARK = re.compile(rf"<m {_BEGIN}([\ufdd6-\ufde5]+){_END}>|{_BEGIN}([\ufdd6-\ufde5]+)\n?{_END}")
_OWN = re.compile(_BEGIN)
_place_of = attrgetter("at")
_shown_of, _start_of = itemgetter(0), attrgetter("start")


class _Hidden(NamedTuple):
    """A protected span, and the characters that it covers."""

    span: ProtectedSpan
    shown: str


class _Term(NamedTuple):
    """The beginning or the end of a glossary's term."""

    span: ProtectedSpan
    shown: str
    written: str
    """The required translation, encoded for the passage's format."""
    begins: bool


_Marked = str | Passage | Tag | _Hidden | _Term
"""What a mark replaces: a copied piece, the end of a passage, a tag, protected text, or an end of a term."""


class PivotSentence(NamedTuple):
    """Where the translation of a sentence is in the text of the pivot language."""

    start: int
    end: int
    sentence: Sentence


class FirstLeg:
    """The translation of an item into the pivot language.

    Decode and check `plan`'s sentences, then call `pieces`.
    """

    def __init__(
        self,
        route: Sequence[Bundle],
        pieces: Sequence[Piece],
        glossary: Glossary | None,
        budget: int,
        label: Label | None,
    ) -> None:
        """Raises BudgetExceeded."""
        self.bundle, self.second_bundle = route
        self.label = label
        self._marked: list[_Marked] = []
        self._glossary = glossary
        marked = [part for piece in pieces for part in self._mark_piece(piece)]
        self.plan = plan_text(self.bundle, marked, None, 1, budget)
        self._sentences: list[PivotSentence] = []
        self._offsets: list[tuple[int, int]] = []

    @property
    def model(self) -> str:
        """The names of both bundles."""
        return f"{self.bundle.name} + {self.second_bundle.name}"

    @property
    def via(self) -> list[str]:
        return [self.bundle.target]

    def pieces(self) -> list[Piece]:
        """The item in the pivot language. The sentences must be decoded and checked."""
        reader = _Reader(self._marked)
        for part in self.plan.parts:
            start = reader.length
            reader.read(part if isinstance(part, str) else part.render(part.best))
            if isinstance(part, Sentence):
                self._sentences.append(PivotSentence(start, reader.length, part))
        self._offsets = reader.offsets
        return [piece if isinstance(piece, str) else self._with_nested(piece) for piece in reader.pieces]

    def _with_nested(self, passage: Passage) -> Passage:
        nested = tuple(inner._replace(passage=self._nested(inner)) for inner in passage.nested)
        return replace(passage, nested=nested) if nested else passage

    def _nested(self, inner: NestedPassage) -> Passage:
        reader = _Reader(self._marked)
        for part in self.plan.nested[inner.number]:
            reader.read(part if isinstance(part, str) else part.render(part.best))
        return reader.passage(inner.passage)

    def sentences_at(self, start: int, end: int) -> list[Sentence]:
        """The sentences whose translations overlap characters [start, end) of the first passage in the pivot
        language."""
        return [one.sentence for one in self._sentences if one.start < max(end, start + 1) and start < one.end]

    def source_offset(self, offset: int) -> int:
        """The start of the sentence whose translation has the character at `offset`, or the last one before it."""
        found = [one.sentence.start for one in self._sentences if one.start <= offset]
        return found[-1] if found else 0

    def align(self, second: TextPlan) -> list[WordPair]:
        """The words of the source and of the second translation that are aligned to the same word in between."""
        pairs = sorted(
            (self._pivot_span(pair.target), pair.source) for pair in word_pairs(self.plan, self._shown_length)
        )
        sources = {word: [source for _, source in group] for word, group in groupby(pairs, key=itemgetter(0))}
        words = sorted(sources)
        ends = [end for _, end in words]  # in order, since words do not overlap
        found: dict[WordPair, None] = {}
        for (start, end), target in word_pairs(second):
            for word in words[bisect_right(ends, start) :]:
                if word[0] >= end:
                    break
                found |= dict.fromkeys(WordPair(source, target) for source in sources[word])
        return list(found)

    def _pivot_span(self, shown: tuple[int, int]) -> tuple[int, int]:
        start, end = map(self._pivot_offset, shown)
        return start, end

    def _pivot_offset(self, shown: int) -> int:
        """The offset in the pivot text of an offset that counts protected text by its mark."""
        place = bisect_right(self._offsets, shown, key=_shown_of) - 1
        at, offset = self._offsets[place]
        following = self._offsets[place + 1][1] if place + 1 < len(self._offsets) else offset + shown - at
        return min(offset + shown - at, following)

    def _shown_length(self, text: str) -> int:
        """The length of `text` with the marks of protected text only."""
        return len(text) - sum(
            len(mark[0]) for mark in _MARK.finditer(text) if not isinstance(_marked_by(mark, self._marked), _Hidden)
        )

    # ---- Marks

    def _mark_piece(self, piece: Piece) -> Iterator[Piece]:
        if isinstance(piece, Passage):
            yield self._mark_passage(piece)
            yield self._mark(piece)
        else:
            yield self._mark(piece, "\n" if "\n" in piece else "")  # a line end separates paragraphs

    def _mark_passage(self, passage: Passage) -> Passage:
        """The passage with marks in place of tags and protected text, and around each term."""
        text = passage.text
        own = [ProtectedSpan(*found.span(), found[0]) for found in _OWN.finditer(text)]
        protected = merge_spans(protected_spans(passage, self.bundle), own)
        hidden = tuple(one._replace(raw=self._mark_protected(one, text[one.start : one.end])) for one in protected)
        nested = tuple(inner._replace(passage=self._mark_passage(inner.passage)) for inner in passage.nested)
        tags = [tag._replace(raw=self._mark(tag)) for tag in passage.tags]
        terms = self._glossary.find(text) if self._glossary else []
        if terms:
            usable = usable_terms(replace(passage, protected=hidden), terms)
            tags = self._with_terms(
                tags, [_Term(one, text[one.start : one.end], passage.write(one.raw), True) for one in usable]
            )
        return Passage(text, hidden, tuple(tags), write_plain, passage.whole, nested)

    def _mark_protected(self, span: ProtectedSpan, shown: str) -> str:
        mark = self._mark(_Hidden(span, shown))
        return f"<m {mark}>" if is_nesting(span.raw) else mark  # nests, too

    def _with_terms(self, tags: Sequence[Tag], terms: Sequence[_Term]) -> list[Tag]:
        """`tags` with a pair around each term: what the pair surrounds in the translation is the term."""
        begins = [Tag(term.span.start, self._mark(term), "open") for term in terms]
        ends = [Tag(term.span.end, self._mark(term._replace(begins=False)), "close") for term in terms]
        return sorted([*ends, *tags, *begins], key=_place_of)

    def _mark(self, marked: _Marked, inside: str = "") -> str:
        self._marked.append(marked)
        digits = "".join(chr(_ZERO + int(digit, 16)) for digit in f"{len(self._marked) - 1:x}")
        return f"{_BEGIN}{digits}{inside}{_END}"


def _marked_by(mark: re.Match[str], marked: Sequence[_Marked]) -> _Marked:
    return marked[int("".join(f"{ord(digit) - _ZERO:x}" for digit in mark[1] or mark[2]), 16)]


@dataclass
class _Reader:
    """Reads a translation with marks, from left to right, into pieces."""

    marked: Sequence[_Marked]
    pieces: list[Piece] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Pairs of an offset that counts protected text by its mark, and the offset in the text."""
    text: str = ""
    protected: list[ProtectedSpan] = field(default_factory=list)
    tags: list[Tag] = field(default_factory=list)
    terms: list[ProtectedSpan] = field(default_factory=list)
    shown: int = 0
    term_start: int = 0
    after_space: bool = False
    """Whether the text ends in the space that belongs to a tag."""

    @property
    def length(self) -> int:
        return len(self.text)

    def read(self, translation: str) -> None:
        """Adds the next part of the translation."""
        at = 0
        for mark in _MARK.finditer(translation):
            self._add_text(translation[at : mark.start()])
            self._add_marked(_marked_by(mark, self.marked), len(mark[0]))
            at = mark.end()
        self._add_text(translation[at:])

    def passage(self, original: Passage) -> Passage:
        """What has been read, as a translation of `original`."""
        return replace(
            original,
            text=self.text,
            protected=tuple(self.protected),
            tags=tuple(self.tags),
            terms=tuple(self.terms),
        )

    def _add_text(self, text: str) -> None:
        if text and self.after_space:
            text = text[1:] if text[0].isspace() else text
            self.after_space = False
        self.text += text
        self._count(len(text))

    def _count(self, shown: int) -> None:
        self.shown += shown
        self.offsets.append((self.shown, self.length))

    def _add_marked(self, marked: _Marked, length: int) -> None:
        match marked:
            case _Hidden(span, shown):
                self._protect(span.raw, shown)
                self._count(length)
            case _Term(begins=True):
                self.term_start = self.length
            case _Term(span, shown, written):
                if found := self._term_words():
                    self.terms.append(ProtectedSpan(*found, span.raw))
                else:
                    self._protect(written, shown)  # no word translates the term
            case Tag():
                self.tags.append(marked._replace(at=self.length))
                if marked.space and self.text and not self.text[-1].isspace():
                    self.text += " "
                    self.after_space = True
            case Passage():
                self.pieces.append(self.passage(marked))
                self._clear()
            case _:
                self.pieces.append(marked)

    def _term_words(self) -> tuple[int, int] | None:
        """The longest text since the beginning of the term without a tag or protected text inside; None if blank."""
        protected = [one for one in self.protected if one.end > self.term_start]
        tags = [tag.at for tag in self.tags if tag.at > self.term_start]
        places = {self.term_start, self.length, *tags, *(place for one in protected for place in (one.start, one.end))}
        runs = [
            (start + len(text) - len(text.lstrip()), start + len(text.rstrip()))
            for start, end in pairwise(sorted(places))
            if (text := self.text[start:end]).strip() and not any(one.start <= start < one.end for one in protected)
        ]
        return max(runs, key=lambda run: run[1] - run[0], default=None)

    def _protect(self, raw: str, shown: str) -> None:
        start = self.length
        self.text += shown
        self.protected.append(ProtectedSpan(start, self.length, raw))
        self.after_space = False

    def _clear(self) -> None:
        self.text, self.protected, self.tags, self.terms, self.after_space = "", [], [], [], False
