"""Splits the text of HTML or XML into items: characters, the white space between them, and invisible characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple
from unicodedata import category

from app.markup.char_refs import TextPart, split_references

SPACE = re.compile(r"[ \t\n\r\f]+")
_ODD_SPACE = re.compile(r"\A[ \t\n\r\f]+|[ \t\n\r\f]+\Z|[\t\n\r\f][ \t\n\r\f]*| [ \t\n\r\f]+")


class InlineItem(NamedTuple):
    """A slice of a line: `raw` as written, and the `text` that it displays."""

    kind: Literal["text", "space", "protected", "open", "close", "mark"]
    raw: str
    text: str = ""


def inline_items(raw: str) -> Iterator[InlineItem]:
    """The items of a text: its characters, white space, and marks for invisible characters."""
    space = ""
    for item in map(_item, _parts(raw)):
        if item.kind == "space":
            space += item.raw
            continue
        if space:
            yield InlineItem("space", space)
            space = ""
        yield item
    if space:
        yield InlineItem("space", space)


def _parts(raw: str) -> Iterator[TextPart]:
    """References, and the text and white space between them; single spaces between words are part of the text."""
    for part in split_references(raw):
        if part.raw != part.text:
            yield part
            continue
        done = 0
        for found in _ODD_SPACE.finditer(part.raw):
            if done < found.start():
                yield TextPart(part.raw[done : found.start()], part.raw[done : found.start()])
            yield TextPart(found[0], found[0])
            done = found.end()
        if done < len(part.raw):
            yield TextPart(part.raw[done:], part.raw[done:])


def _item(part: TextPart) -> InlineItem:
    if part.raw == part.text:
        return InlineItem("space" if SPACE.fullmatch(part.raw) else "text", part.raw, part.raw)
    if part.text is None:
        return InlineItem("protected", part.raw, part.raw)
    if not part.text or (category(part.text[0]) in ("Cf", "Cc") and not part.text.isspace()):
        return InlineItem("mark", part.raw)
    if part.text.isspace():
        return InlineItem("space", part.raw)
    return InlineItem("text" if len(part.text) == 1 else "protected", part.raw, part.text)
