"""What a document is to those who have it translated. Knows no format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeVar

from app.passage import Passage
from app.weaving import unchanged

T = TypeVar("T")
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


class Content(NamedTuple):
    """What a format's reader finds."""

    passages: Sequence[Passage]
    write: Callable[[Sequence[str]], bytes]


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


class Slot(NamedTuple):
    """Characters [start, end) of a text that are `passage`; `spell` makes what goes there out of its translation."""

    start: int
    end: int
    passage: Passage
    spell: Callable[[str], str] = str


def slotted(text: str, slots: Sequence[Slot], encode: Callable[[str], bytes]) -> Content:
    """The document that is `text`, of which nothing but the slots may change. They are in order and do not overlap."""

    def write(translations: Sequence[str]) -> bytes:
        parts, done = [], 0
        for slot, translation in zip(slots, translations, strict=True):
            same = translation == unchanged(slot.passage)
            parts += [text[done : slot.start], text[slot.start : slot.end] if same else slot.spell(translation)]
            done = slot.end
        return encode("".join(parts) + text[done:])

    return Content([slot.passage for slot in slots], write)
