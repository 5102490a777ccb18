"""What a document is to those who have it translated. Knows no format."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from app.markup.passage import Passage, Piece
from app.markup.render import unchanged

T = TypeVar("T")
_LINE_END = re.compile(r"\r\n?|\n")
MOST_PASSAGES = 50_000
"""Of one document. A small file, packed, may hold ten times as many paragraphs of a letter each, and to read them takes
minutes, in which whoever else is in the process has to wait for seconds."""


class UnreadableDocument(ValueError):
    """The file is not what its name says, or not safe to open; one line that says why."""


class UnknownFormat(UnreadableDocument):
    """The file's name has a suffix that no reader is for."""


def few(found: Iterable[T]) -> list[T]:
    """All of what becomes passages. Raises UnreadableDocument as soon as there are too many."""
    listed = list(islice(found, MOST_PASSAGES + 1))
    if len(listed) > MOST_PASSAGES:
        raise UnreadableDocument(f"The file has over {MOST_PASSAGES} paragraphs or strings to translate. Split it.")
    return listed


class Place(NamedTuple):
    """Where a passage stands in its file, for whoever looks for it there."""

    line: int | None = None
    """Its first one; the file's first is 1."""
    name: str = ""
    """What the format itself calls it, such as a key's path, or how it counts it."""
    lines: Sequence[tuple[int, int]] = ()
    """If the passage is lines of the file: the offset in its text at which each begins, and the line's number."""

    def at(self, offset: int) -> Place:
        """The place of a character of the passage."""
        found = bisect_right(self.lines, offset, key=itemgetter(0))
        return Place(self.lines[found - 1][1], self.name) if found else Place(self.line, self.name)

    def __str__(self) -> str:
        return ", ".join([*([f"line {self.line}"] if self.line else []), *([self.name] if self.name else [])])


class Content(NamedTuple):
    """What a format's reader finds. `places`: of each passage; none: they are only counted."""

    passages: Sequence[Passage]
    write: Callable[[Sequence[str]], bytes]
    places: Sequence[Place] = ()


@dataclass(frozen=True)
class Document:
    """A file to translate: `passages`, in the order of the file.

    `write` gives the file with a translation for each passage in its place, each as the translator gives it: already
    spelt by the passage's own `write`, with its tags and what is kept. What comes back as it was leaves the file there
    as it was, to the byte, save in .po and .xliff, whose translations stand beside their sources.
    """

    passages: Sequence[Passage]
    write: Callable[[Sequence[str]], bytes]
    media_type: str
    places: Sequence[Place]
    """Of each passage."""


class Slot(NamedTuple):
    """Characters [start, end) of a text that are `content`: a passage, or pieces of which some are passages.

    `spell` makes what goes there out of the content's translation. `name` and `lines` are its place's; where there are
    no `lines`, it has the line that it begins in.
    """

    start: int
    end: int
    content: Passage | Sequence[Piece]
    spell: Callable[[str], str] = str
    name: str = ""
    lines: Sequence[tuple[int, int]] = ()

    @property
    def pieces(self) -> Sequence[Piece]:
        return [self.content] if isinstance(self.content, Passage) else self.content

    @property
    def passages(self) -> list[Passage]:
        return [piece for piece in self.pieces if isinstance(piece, Passage)]


def slotted(text: str, slots: Sequence[Slot], encode: Callable[[str], bytes]) -> Content:
    """The document that is `text`, of which nothing but the slots may change. They are in order and do not overlap."""

    def write(translations: Sequence[str]) -> bytes:
        parts, done, waiting = [], 0, iter(translations)
        for slot in slots:
            translated = filled(slot.pieces, waiting)
            same = translated == filled(slot.pieces, map(unchanged, slot.passages))
            parts += [text[done : slot.start], text[slot.start : slot.end] if same else slot.spell(translated)]
            done = slot.end
        assert next(waiting, None) is None
        return encode("".join(parts) + text[done:])

    line = line_numbers(text)
    places = [Place(line(slot.start), slot.name, slot.lines) for slot in slots for _ in slot.passages]
    return Content([passage for slot in slots for passage in slot.passages], write, places)


def filled(pieces: Sequence[Piece], translations: Iterator[str]) -> str:
    """`pieces` with the next translation for each passage."""
    return "".join(piece if isinstance(piece, str) else next(translations) for piece in pieces)


def line_numbers(text: str) -> Callable[[int], int]:
    """What tells the line of a character: lines end as in editors, and the first is 1."""
    ends = [found.end() for found in _LINE_END.finditer(text)]
    return lambda place: bisect_right(ends, place) + 1
