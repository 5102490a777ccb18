"""Translates through another language: the first of two translations, and the passages that the second one starts from.

The first translation is a plan like any other, except that markup and protected text are replaced by sentinels, which
the model does not see. Each sentence of its result is cut at the sentinels into text again, with the same markup and
protected text in their new places.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

from app.errors import ServiceError
from app.markup.passage import Passage, Piece, ProtectedSpan, Tag, usable_spans, write_plain
from app.text.glossary import Glossary, merge_spans
from app.text.symbols import is_nesting
from app.translation.alignment import WordPair, word_pairs
from app.translation.planned_sentence import Part, PlannedSentence, rendered, sentences_of
from app.translation.text_plan import Label, PassagePlanner, TextPlan, plan_text, protected_passage
from model.bundle import Bundle

MAX_READ_PARTS = 64
"""Parts, or nested passages, that are read at once, and about as many parts that are made of them: on the event
loop."""
_BEGIN, _END, _ZERO = "\ufdd4", "\ufdd5", 0xFDD6
"""Noncharacters, which Unicode reserves for a process's internal use: ends of a sentinel, and its first hexadecimal
digit."""
_SENTINEL = re.compile(rf"<m {_BEGIN}([\ufdd6-\ufde5]+){_END}>|{_BEGIN}([\ufdd6-\ufde5]+)\n?{_END}")
_OWN = re.compile(_BEGIN)
_place_of = attrgetter("at")
_shown_of = itemgetter(0)


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


_Replaced = str | Passage | Tag | _Hidden | _Term
"""What a sentinel replaces: a copied piece, the end of a passage, a tag, protected text, or an end of a term."""


class PivotPlan:
    """The translation of an item through a pivot language: the plan of the translation into it, and the plan of the one
    from it, which grows.

    Translate the sentences of `into_pivot`, and call `advance` whenever some of them are done.
    """

    def __init__(
        self,
        route: Sequence[Bundle],
        pieces: Sequence[Piece],
        glossary: Glossary | None,
        beam_size: int,
        budget: int,
        label: Label | None,
    ) -> None:
        """`beam_size` is the second translation's. Raises BudgetExceeded."""
        self.bundle, self.second_bundle = route
        self.error: ServiceError | None = None
        """The error of the first sentence that failed; there is no second translation then."""
        self._replaced: list[_Replaced] = []
        self._glossary = glossary
        hidden = [part for piece in pieces for part in self._hide_piece(piece)]
        self.into_pivot = plan_text(self.bundle, hidden, None, 1, budget)
        self.from_pivot = TextPlan(self.second_bundle, label=label)
        """The plan of the second translation, as far as the first is known."""
        self._beam_size = beam_size
        self._passages = [piece for piece in pieces if isinstance(piece, Passage)]
        self._nested = deque(inner for passage in self._passages for inner in passage.nested)
        """The nested passages of which `from_pivot` has no plan yet."""
        self._passage = 0  # the number of the one that is being read
        self._reader = _Reader(self._replaced)
        self._next = 0  # the part of `into_pivot` to read next
        self._origins: dict[PlannedSentence, PlannedSentence] = {}
        self._starts: list[tuple[int, int]] = []

    @property
    def model(self) -> str:
        """The names of both bundles."""
        return f"{self.bundle.name} + {self.second_bundle.name}"

    @property
    def via(self) -> list[str]:
        return [self.bundle.target]

    @property
    def is_read(self) -> bool:
        """Whether `from_pivot` is complete, or there is none."""
        return self.error is not None or (not self._nested and self._next == len(self.into_pivot.parts))

    @property
    def can_advance(self) -> bool:
        """Whether `advance` has more to plan."""
        return not self.is_read and all(map(_is_ready, self._following))

    @property
    def reading_size(self) -> int:
        """The length of the longest part that `advance` may read next."""
        parts = self._following if self._nested else self.into_pivot.parts[self._next : self._next + MAX_READ_PARTS]
        return max((len(rendered(part)) for part in parts if _is_ready(part)), default=0)

    @property
    def _following(self) -> Sequence[Part]:
        """What the second translation must wait for next."""
        return self.into_pivot.nested[self._nested[0].number] if self._nested else [self.into_pivot.parts[self._next]]

    def advance(self, budget: int) -> list[PlannedSentence]:
        """Plans the second translation of what has been translated since the last call, in order, up to the first
        sentence that has not, or `MAX_READ_PARTS`. Returns its new sentences.

        A sentence of the first translation stays a sentence, or becomes several: so each can be translated on as soon
        as it is known. Raises BudgetExceeded if the second translation costs more than `budget`.
        """
        added: list[Part] = []
        for _ in range(MAX_READ_PARTS):
            if not self.can_advance or len(added) >= MAX_READ_PARTS:
                break
            if self._nested:
                inner = self._nested.popleft()
                parts = self._second_parts(
                    _Reader(self._replaced), self.into_pivot.nested[inner.number], inner.passage, budget
                )
                self.from_pivot.nested[inner.number] = parts
            else:
                parts = self._read(self.into_pivot.parts[self._next], budget)
                self._next += 1
                self.from_pivot.parts += parts
            added += parts
        if not self.is_read:
            errors = (part.error for part in sentences_of(self._following))
            self.error = next(filter(None, errors), None)
        return sentences_of(added)

    def _read(self, part: Part, budget: int) -> list[Part]:
        """The parts of the second translation of one part of the first."""
        reader = self._reader
        start = reader.end
        ended = reader.read(rendered(part))
        if isinstance(part, PlannedSentence):
            self._starts.append((start, part.sentence.start))
            parts = self._split_chunk(reader, self._passages[self._passage], budget)
            self._origins |= dict.fromkeys(sentences_of(parts), part)
            return parts
        if isinstance(ended, Passage):
            self._passage += 1
            parts = self._split_chunk(reader, ended, budget)
            reader.begin_passage()
            return parts
        return [] if ended is None else [ended]

    def _second_parts(self, reader: _Reader, parts: Iterable[Part], original: Passage, budget: int) -> list[Part]:
        """The parts of the second translation of a whole passage."""
        found: list[Part] = []
        for part in parts:
            reader.read(rendered(part))
            if isinstance(part, PlannedSentence):
                found += self._split_chunk(reader, original, budget)
        return found + self._split_chunk(reader, original, budget)

    def _split_chunk(self, reader: _Reader, original: Passage, budget: int) -> list[Part]:
        """The parts of what `reader` has read since the last call."""
        start, follows = reader.start, reader.follows_sentence
        chunk = reader.take_chunk(original)
        if not (chunk.text or chunk.tags or chunk.protected):
            return []
        planner = PassagePlanner(self.from_pivot, self.second_bundle, chunk, None, self._beam_size, start=start)
        parts = planner.parts(budget, follows)
        reader.follows_sentence = isinstance(parts[-1], PlannedSentence)
        return parts

    def origin(self, second: PlannedSentence) -> PlannedSentence | None:
        """The sentence of the source whose translation has `second`, a sentence of the second translation; None if that
        is a sentence of a nested passage."""
        return self._origins.get(second)

    def source_offset(self, offset: int) -> int:
        """The start of the sentence whose translation has the character at `offset`, or the last one before it."""
        found = [source for start, source in self._starts if start <= offset]
        return found[-1] if found else 0

    def align(self, second: TextPlan) -> list[WordPair]:
        """The words of the source and of the second translation that are aligned to the same word in between."""
        pairs = sorted(
            (self._pivot_span(pair.target), pair.source) for pair in word_pairs(self.into_pivot, self._shown_length)
        )
        sources = {word: [source for _, source in group] for word, group in groupby(pairs, key=itemgetter(0))}
        words = sorted(sources)
        ends = [end for _, end in words]  # in order, since words do not overlap
        found: dict[WordPair, None] = {}
        for (start, end), target in word_pairs(second):
            for place in range(bisect_right(ends, start), len(words)):
                word = words[place]
                if word[0] >= end:
                    break
                found |= dict.fromkeys(WordPair(source, target) for source in sources[word])
        return list(found)

    def _pivot_span(self, shown: tuple[int, int]) -> tuple[int, int]:
        start, end = map(self._pivot_offset, shown)
        return start, end

    def _pivot_offset(self, shown: int) -> int:
        """The offset in the pivot text of an offset that counts protected text by its sentinel."""
        offsets = self._reader.offsets
        place = bisect_right(offsets, shown, key=_shown_of) - 1
        at, offset = offsets[place]
        following = offsets[place + 1][1] if place + 1 < len(offsets) else offset + shown - at
        return min(offset + shown - at, following)

    def _shown_length(self, text: str) -> int:
        """The length of `text` with the sentinels of protected text only."""
        return len(text) - sum(
            len(found[0])
            for found in _SENTINEL.finditer(text)
            if not isinstance(_replaced_by(found, self._replaced), _Hidden)
        )

    # ---- Sentinels

    def _hide_piece(self, piece: Piece) -> Iterator[Piece]:
        if isinstance(piece, Passage):
            yield self._hide_passage(piece)
            yield self._sentinel(piece)
        else:
            yield self._sentinel(piece, "\n" if "\n" in piece else "")  # a line end separates paragraphs

    def _hide_passage(self, passage: Passage) -> Passage:
        """The passage with sentinels in place of tags and protected text, and around each term."""
        passage = protected_passage(passage, self.bundle)
        text = passage.text
        own = [ProtectedSpan(*found.span(), found[0]) for found in _OWN.finditer(text)]
        protected = merge_spans(passage.protected, own)
        hidden = tuple(one._replace(raw=self._hide_protected(one, text[one.start : one.end])) for one in protected)
        nested = tuple(inner._replace(passage=self._hide_passage(inner.passage)) for inner in passage.nested)
        tags = [tag._replace(raw=self._sentinel(tag)) for tag in passage.tags]
        terms = self._glossary.find(text) if self._glossary else []
        if terms:
            usable = usable_spans(replace(passage, protected=hidden), terms)
            tags = self._with_terms(
                tags, [_Term(one, text[one.start : one.end], passage.write(one.raw), True) for one in usable]
            )
        return Passage(text, hidden, tuple(tags), write_plain, passage.whole, nested)

    def _hide_protected(self, span: ProtectedSpan, shown: str) -> str:
        sentinel = self._sentinel(_Hidden(span, shown))
        return f"<m {sentinel}>" if is_nesting(span.raw) else sentinel  # nests, too

    def _with_terms(self, tags: Sequence[Tag], terms: Sequence[_Term]) -> list[Tag]:
        """`tags` with a pair around each term: what the pair surrounds in the translation is the term."""
        begins = [Tag(term.span.start, self._sentinel(term), "open") for term in terms]
        ends = [Tag(term.span.end, self._sentinel(term._replace(begins=False)), "close") for term in terms]
        return sorted([*ends, *tags, *begins], key=_place_of)

    def _sentinel(self, replaced: _Replaced, inside: str = "") -> str:
        self._replaced.append(replaced)
        digits = "".join(chr(_ZERO + int(digit, 16)) for digit in f"{len(self._replaced) - 1:x}")
        return f"{_BEGIN}{digits}{inside}{_END}"


def _replaced_by(sentinel: re.Match[str], replaced: Sequence[_Replaced]) -> _Replaced:
    return replaced[int("".join(f"{ord(digit) - _ZERO:x}" for digit in sentinel[1] or sentinel[2]), 16)]


def _is_ready(part: Part) -> bool:
    """Whether the translation of `part` is known."""
    return isinstance(part, str) or part.is_translated


@dataclass
class _Reader:
    """Reads a translation with sentinels, from left to right, and cuts it into chunks. A chunk is what has been read
    since the last one was taken."""

    replaced: Sequence[_Replaced]
    offsets: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Pairs of an offset that counts protected text by its sentinel, and the offset in the text."""
    start: int = 0
    """Where the chunk begins in the text of its passage."""
    follows_sentence: bool = False
    """Whether the text before the chunk ends in a sentence."""
    text: str = ""
    protected: list[ProtectedSpan] = field(default_factory=list)
    tags: list[Tag] = field(default_factory=list)
    terms: list[ProtectedSpan] = field(default_factory=list)
    shown: int = 0
    term_start: int = 0
    after_space: bool = False
    """Whether the text ends in the space that belongs to a tag."""

    @property
    def end(self) -> int:
        """The length of the passage's text up to now."""
        return self.start + len(self.text)

    def read(self, translation: str) -> str | Passage | None:
        """Adds the next part of the translation. Returns the copied piece that it stands for, or the passage that it
        ends."""
        ended: str | Passage | None = None
        at = 0
        for sentinel in _SENTINEL.finditer(translation):
            self._add_text(translation[at : sentinel.start()])
            replaced = _replaced_by(sentinel, self.replaced)
            if isinstance(replaced, str | Passage):
                ended = replaced
            else:
                self._add_replaced(replaced, len(sentinel[0]))
            at = sentinel.end()
        self._add_text(translation[at:])
        return ended

    def take_chunk(self, original: Passage) -> Passage:
        """The chunk, as part of a translation of `original`. The next one begins after it."""
        chunk = Passage(
            self.text,
            tuple(self.protected),
            tuple(self.tags),
            original.write,
            original.whole,
            terms=tuple(self.terms),
        )
        self.start = self.end
        self.text, self.protected, self.tags, self.terms, self.term_start = "", [], [], [], 0
        return chunk

    def begin_passage(self) -> None:
        """Begins another passage after the last chunk."""
        self.start, self.follows_sentence, self.after_space = 0, False, False

    def _add_text(self, text: str) -> None:
        if text and self.after_space:
            text = text[1:] if text[0].isspace() else text
            self.after_space = False
        self.text += text
        self._count(len(text))

    def _count(self, shown: int) -> None:
        self.shown += shown
        self.offsets.append((self.shown, self.end))

    def _add_replaced(self, replaced: Tag | _Hidden | _Term, length: int) -> None:
        match replaced:
            case _Hidden(span, shown):
                self._protect(span.raw, shown)
                self._count(length)
            case _Term(begins=True):
                self.term_start = len(self.text)
            case _Term(span, shown, written):
                if found := self._term_words():
                    self.terms.append(ProtectedSpan(*found, span.raw))
                else:
                    self._protect(written, shown)  # no word translates the term
            case Tag():
                self.tags.append(replaced._replace(at=len(self.text)))
                if replaced.space and self.text and not self.text[-1].isspace():
                    self.text += " "
                    self.after_space = True

    def _term_words(self) -> tuple[int, int] | None:
        """The longest text since the beginning of the term without a tag or protected text inside; None if blank."""
        protected = [one for one in self.protected if one.end > self.term_start]
        tags = [tag.at for tag in self.tags if tag.at > self.term_start]
        ends = self.term_start, len(self.text)
        places = {*ends, *tags, *(place for one in protected for place in (one.start, one.end))}
        runs = [
            (start + len(text) - len(text.lstrip()), start + len(text.rstrip()))
            for start, end in pairwise(sorted(places))
            if (text := self.text[start:end]).strip() and not any(one.start <= start < one.end for one in protected)
        ]
        return max(runs, key=lambda run: run[1] - run[0], default=None)

    def _protect(self, raw: str, shown: str) -> None:
        start = len(self.text)
        self.text += shown
        self.protected.append(ProtectedSpan(start, len(self.text), raw))
        self.after_space = False
