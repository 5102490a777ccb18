"""The translator's input: text, its tags and protected parts, and how its format encodes characters.

Offsets are code points of the passage's text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

_start_of, _end_of = attrgetter("start"), attrgetter("end")
_BEGIN, _END = "\ufdd2", "\ufdd3"
"""Noncharacters, which Unicode reserves for a process's internal use."""
_REFERENCE = re.compile(f"{_BEGIN}([0-9]{{1,9}}){_END}")
VALUE = "{x}"
"""Placeholder in a passage's text for a value without text: a name or a number that a program inserts."""
OBJECT = "\ufffc"
"""Placeholder for a picture, a form field, or half of a pair of codes: at the edge of a sentence it is not part of
it."""


class ProtectedSpan(NamedTuple):
    """Characters [start, end) hidden from the model: the translation has `raw`, unchanged, in their place, once.

    A placeholder, whose `raw` is itself; a glossary term, with its required translation; or an untranslated element,
    with its tags.
    """

    start: int
    end: int
    raw: str

    def moved(self, by: int) -> ProtectedSpan:
        """The same span, `by` characters later."""
        return self._replace(start=self.start + by, end=self.end + by)


class Tag(NamedTuple):
    """Markup before the character `at`; it is not in the text, and the translation has `raw`, once.

    An `open` and its `close` nest as in HTML and go around the words that translate those between them; a `mark`, such
    as a line break or a comment, stands alone and moves with the words beside it.
    """

    at: int
    raw: str
    kind: Literal["open", "close", "mark"] = "mark"
    space: bool = False
    """Whether a mark is white space (`&nbsp;`), and replaces a space beside it."""


class NestedPassage(NamedTuple):
    """A passage within the `raw` of another one, where `reference(number)` marks its place: a picture's description.

    Numbers are unique within a text.
    """

    number: int
    passage: Passage


def reference(number: int) -> str:
    """The reference to the nested passage with that number."""
    return f"{_BEGIN}{number}{_END}"


def has_no_references(text: str) -> bool:
    """Whether `text` has nothing that looks like a reference."""
    return _BEGIN not in text


def references(text: str) -> list[int]:
    """The numbers of the nested passages that `text` refers to."""
    return [int(number) for number in _REFERENCE.findall(text)]


def resolve_references(text: str, nested: Callable[[int], str | None]) -> str:
    """`text` with each reference replaced by what `nested` returns for its number; if None, the reference stays."""

    def resolved(reference: re.Match[str]) -> str:
        inner = nested(int(reference[1]))
        return reference[0] if inner is None else inner

    return text if has_no_references(text) else _REFERENCE.sub(resolved, text)


def write_plain(text: str) -> str:
    """Encodes text as plain text."""
    return text


@dataclass(frozen=True)
class Passage:
    """Text that is translated as a whole: a paragraph, a heading, a string of a catalogue.

    `protected` spans are in order and do not overlap; `tags` are in order of position, well nested, every `open` with
    its `close`, and none inside a protected span. `write` encodes translated text, in pieces, for the format; it does
    not apply to any `raw`. A passage that is `whole` is one sentence, whatever ends it contains.
    """

    text: str
    protected: tuple[ProtectedSpan, ...] = ()
    tags: tuple[Tag, ...] = ()
    write: Callable[[str], str] = write_plain
    whole: bool = False
    nested: tuple[NestedPassage, ...] = ()
    terms: tuple[ProtectedSpan, ...] = ()
    """Words with a required translation as `raw`, in plain characters; in order. The model sees them."""

    @property
    def size(self) -> int:
        """Number of characters to translate."""
        return len(self.text) + sum(inner.passage.size for inner in self.nested)

    @property
    def words(self) -> str:
        """All its text, for language detection."""
        return "\n".join([self.text, *(inner.passage.words for inner in self.nested)])


Piece = str | Passage
"""In order: strings that are copied, and passages."""


class AlignedSpan(NamedTuple):
    """Characters [start, end) of a sentence and of its translation that correspond: mostly parts of words.

    Spans are in target order, do not overlap there, and together cover the translation.
    """

    source: tuple[int, int]
    target: tuple[int, int]


def with_insertions(span: tuple[int, int], insertions: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Where the characters `span` are once `insertions`, each a place and a length, are made before them."""
    if not insertions:
        return span
    start, end = span
    return (
        start + sum(size for at, size in insertions if at <= start),
        end + sum(size for at, size in insertions if at < end),
    )


def tag_pairs(tags: Sequence[Tag]) -> Iterator[tuple[int, int]]:
    """The indices of the opening and the closing tag of each element that has both, in order of the closing ones."""
    opened: list[int] = []
    for index, tag in enumerate(tags):
        if tag.kind == "open":
            opened.append(index)
        elif tag.kind == "close" and opened:
            yield opened.pop(), index


def replaced(text: str, edits: Iterable[tuple[int, int, str]], write: Callable[[str], str] = write_plain) -> str:
    """`text` with other text in the place of characters [start, end) for each of `edits`, which are in order; the text
    between them is encoded by `write`."""
    parts, done = list[str](), 0
    for start, end, other in edits:
        parts += write(text[done:start]), other
        done = end
    return "".join([*parts, write(text[done:])])


def masked(text: str, spans: Iterable[ProtectedSpan], mask: str) -> str:
    """`text` with the character `mask` for each character of `spans`, which are in order."""
    return replaced(text, ((one.start, one.end, mask * (one.end - one.start)) for one in spans))


def overlaps(spans: Sequence[ProtectedSpan], start: int, end: int) -> bool:
    """Whether characters [start, end) are in any of `spans`, which are in order."""
    return bisect_right(spans, start, key=_end_of) < bisect_left(spans, end, key=_start_of)


def usable_spans(passage: Passage, found: Sequence[ProtectedSpan]) -> tuple[ProtectedSpan, ...]:
    """Those of `found` that overlap no protected span and contain no tag."""
    if not (passage.protected or passage.tags):
        return tuple(found)
    places = [tag.at for tag in passage.tags]
    return tuple(
        one
        for one in found
        if not overlaps(passage.protected, one.start, one.end)
        and bisect_right(places, one.start) == bisect_left(places, one.end)
    )
