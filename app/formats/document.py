"""Types common to all formats: documents, locations of passages, and slots of a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from app.markup.passage import Passage, Piece
from app.markup.render import render_source

T = TypeVar("T")
_LINE_END = re.compile(r"\r\n?|\n")
MAX_PASSAGES = 50_000
"""Per document. A small compressed file may hold ten times as many one-letter paragraphs, which would take minutes to
read and delay other requests by seconds."""
_MIN_PASSAGES = 500
"""However small the file is."""
MAX_DEPTH = 200
"""Levels of whatever nests in a format: elements, values, passages. What reads them may call itself for each."""
_MAX_GROWTH = 16
_MIN_OUTPUT_BYTES = 1 << 20
"""What is written may have this many bytes, or that many times those of the file and its translations. A plural of one
form gets six, with what is around them."""
_MAX_NAME_CHARS = 500
_MAX_COPIED_CHARS = 4_000_000_000
"""A third of a second. A string of 200,000 characters in 40,000 lines has as many."""


class UnreadableDocument(ValueError):
    """The file is not in the format of its suffix, or is unsafe to open; the message is one line."""


class UnknownFormat(UnreadableDocument):
    """No reader supports the suffix of the file's name."""


class WrongOption(UnreadableDocument):
    """An option of the format does not fit the file; `option` is its name in FormatOptions."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


def bounded_list(found: Iterable[T]) -> list[T]:
    """The items of `found`, which become passages, as a list. Raises UnreadableDocument if there are too many."""
    listed = list(islice(found, MAX_PASSAGES + 1))
    check_count(len(listed))
    return listed


def check_count(passages: int) -> None:
    """Raises UnreadableDocument if these are too many for a document."""
    if passages > MAX_PASSAGES:
        raise UnreadableDocument(f"The file has over {MAX_PASSAGES} paragraphs or strings to translate. Split it.")


def check_branches(passages: int, size: int) -> None:
    """Raises UnreadableDocument if these are too many for a text of `size` characters: plurals in each other multiply
    them."""
    if passages > _MIN_PASSAGES + size // 2:
        raise UnreadableDocument("With the plural forms of the target language, the file has too many strings.")
    check_count(passages)


def check_passages(passages: Iterable[Passage]) -> None:
    """Raises UnreadableDocument if these, with the passages nested in them, are too many, or nested too deeply."""
    level, count, depth = list(passages), 0, 0
    while level:
        count, depth = count + len(level), depth + 1
        check_count(count)
        check_depth(depth)
        level = [inner.passage for passage in level for inner in passage.nested]


def check_depth(depth: int, what: str = "The file") -> None:
    """Raises UnreadableDocument if these are too many levels for a document."""
    if depth > MAX_DEPTH:
        raise UnreadableDocument(f"{what} is nested too deeply: it has over {MAX_DEPTH} levels.")


def write_bounded(write: Callable[[Sequence[str]], bytes], size: int, translations: Sequence[str]) -> bytes:
    """What `write` returns for a file of `size` bytes. Raises UnreadableDocument if that is too long."""
    written = write(translations)
    given = size + 4 * sum(map(len, translations))  # in UTF-8
    if len(written) > max(_MIN_OUTPUT_BYTES, _MAX_GROWTH * given):
        raise UnreadableDocument(f"With its translations, the file would have {len(written)} bytes. Split it.")
    return written


def part_of_name(text: str) -> str:
    """`text` for the names of all that is in something with that name: long ones would be repeated for each."""
    return text if len(text) <= _MAX_NAME_CHARS else f"{text[:_MAX_NAME_CHARS]}…"


def check_joins(added: Iterable[int]) -> None:
    """Raises UnreadableDocument if a library that joins strings piece by piece, and copies each time what it has, would
    take long. `added`: characters of the pieces, in order; 0 begins a new string."""
    copied = length = 0
    for size in added:
        length = length + size if size else 0
        copied += length
    if copied > _MAX_COPIED_CHARS:
        raise UnreadableDocument("The file has too many lines in one string or comment. Split it.")


class TextLocation(NamedTuple):
    """A passage's location in its file, for display."""

    line: int | None = None
    """The passage's first line, counted from 1."""
    name: str = ""
    """The format's own name or number for it, such as a key's path."""
    lines: Sequence[tuple[int, int]] = ()
    """If the passage consists of lines of the file: for each, the offset in its text where it begins, and its
    number."""

    def at(self, offset: int) -> TextLocation:
        """The location of a character of the passage."""
        found = bisect_right(self.lines, offset, key=itemgetter(0))
        return TextLocation(self.lines[found - 1][1], self.name) if found else TextLocation(self.line, self.name)

    def __str__(self) -> str:
        return ", ".join([*([f"line {self.line}"] if self.line else []), *([self.name] if self.name else [])])


class Content(NamedTuple):
    """A parsed file. `locations`: one per passage; if empty, passages are only counted."""

    passages: Sequence[Passage]
    write: Callable[[Sequence[str]], bytes]
    locations: Sequence[TextLocation] = ()


@dataclass(frozen=True)
class Document:
    """A file to translate: `passages`, in file order.

    `write` returns the file with a translation in the place of each passage, as the translator returns it: encoded by
    the passage's own `write`, with its tags and protected text. Unchanged passages leave the file unchanged, to the
    byte, except in catalogues that hold translations beside their sources, such as .po, and where the target language
    has other plural categories.
    """

    passages: Sequence[Passage]
    write: Callable[[Sequence[str]], bytes]
    media_type: str
    locations: Sequence[TextLocation]
    """One per passage."""
    evident_encoding: str = ""
    """The encoding that it was read in, if it is not Unicode and does not say so."""


class Slot(NamedTuple):
    """Characters [start, end) of a text that contain `content`: a passage, or pieces of which some are passages.

    `encode` encodes the content's translation for the file. `name` and `lines` are those of its location; without
    `lines`, it has the line in which it begins.
    """

    start: int
    end: int
    content: Passage | Sequence[Piece]
    encode: Callable[[str], str] = str
    name: str = ""
    lines: Sequence[tuple[int, int]] = ()
    adds: bool = False
    """Whether to write the content even where its translation is its source: at an empty span, it is new."""

    @property
    def pieces(self) -> Sequence[Piece]:
        return [self.content] if isinstance(self.content, Passage) else self.content

    @property
    def passages(self) -> list[Passage]:
        return [piece for piece in self.pieces if isinstance(piece, Passage)]


def content_of_slots(text: str, slots: Sequence[Slot], encode: Callable[[str], bytes]) -> Content:
    """The document `text`, in which only the slots may change. They are in order and do not overlap."""

    def write(translations: Sequence[str]) -> bytes:
        parts, end, remaining = [], 0, iter(translations)
        for slot in slots:
            translated = fill(slot.pieces, remaining)
            same = not slot.adds and translated == fill(slot.pieces, map(render_source, slot.passages))
            parts += [text[end : slot.start], text[slot.start : slot.end] if same else slot.encode(translated)]
            end = slot.end
        assert next(remaining, None) is None
        return encode("".join(parts) + text[end:])

    line = line_numbers(text)
    locations = [TextLocation(line(slot.start), slot.name, slot.lines) for slot in slots for _ in slot.passages]
    return Content([passage for slot in slots for passage in slot.passages], write, locations)


def fill(pieces: Sequence[Piece], translations: Iterator[str]) -> str:
    """`pieces` with each passage replaced by the next translation."""
    return "".join(piece if isinstance(piece, str) else next(translations) for piece in pieces)


def line_numbers(text: str) -> Callable[[int], int]:
    """Returns a function from a character's offset to its line, counted from 1; lines end as in editors."""
    ends = [found.end() for found in _LINE_END.finditer(text)]
    return lambda offset: bisect_right(ends, offset) + 1
