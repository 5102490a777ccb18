"""Character references of HTML and XML: what they stand for, and how a document writes its characters.

Knows no tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from html.entities import html5
from typing import NamedTuple

_REFERENCE = re.compile(r"&(?:#(?:[0-9]{1,8}|[xX][0-9a-fA-F]{1,8})|[A-Za-z][A-Za-z0-9]{0,40});?")
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_IN_VALUE = {
    quote: {ord(character): "&quot;" if character == '"' else f"&#{ord(character)};" for character in forbidden}
    for quote, forbidden in (('"', '"'), ("'", "'"), ("", " \t\n\r\f\"'>"))
}
"""By the quotation mark around a value: what cannot stand in it as it is."""
_OPENING = re.compile(r"<(?=[A-Za-z/!?%_:\u0080-\U0010ffff]|\Z)")
"""A "<" that a parser may take for a tag's."""


class Part(NamedTuple):
    """A stretch of markup's text: plain characters, for which `raw == text`, or one reference.

    Of a reference that only the document's own definitions explain, `text` is None.
    """

    raw: str
    text: str | None


def parts(text: str) -> Iterator[Part]:
    """The parts of `text`, whose `raw` joined are `text`. A stray "&" is plain."""
    done = 0
    for found in _REFERENCE.finditer(text):
        raw = _known(found[0])
        if not raw and found[0][1] != "#" and found[0].endswith(";"):
            raw = found[0]
        if not raw:
            continue
        if done < found.start():
            yield Part(text[done : found.start()], text[done : found.start()])
        yield Part(raw, unescape(raw) if _known(raw) else None)
        done = found.start() + len(raw)
    if done < len(text):
        yield Part(text[done:], text[done:])


def _known(reference: str) -> str:
    """As much of it as HTML knows; nothing, if it knows nothing. Old names need no semicolon: `&copy2020`."""
    if reference[1] == "#":
        return reference
    name = reference[1:]
    # Names that need no semicolon have 2 to 6 letters.
    ends = [len(name), *range(min(len(name), 6), 1, -1)]
    return next((reference[: end + 1] for end in ends if name[:end] in html5), "")


@dataclass
class Spellings:
    """How a stretch of markup writes characters: its references, the first for each, and those it writes plainly."""

    references: dict[str, str] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)

    def add(self, part: Part) -> None:
        """Takes notice of `part`."""
        if part.raw == part.text:
            self.plain.update(part.text)
        elif part.text and len(part.text) == 1:
            self.references.setdefault(part.text, part.raw.removesuffix(";") + ";")

    def of_passage(self, character: str) -> str | None:
        """Its only spelling; of two the plain one, if it can be read; None, if it has none."""
        if character in self.references and (character not in self.plain or character in _ESCAPED):
            return self.references[character]
        return character if character in self.plain else None

    def of_document(self, character: str) -> str | None:
        """Its reference, if it is never written plainly."""
        return None if character in self.plain else self.references.get(character)


@dataclass(frozen=True, eq=False)
class Writer:
    """Spells characters as the passage does, else as the document does; those that must be escaped are."""

    passage: Spellings
    document: Spellings
    quote: str | None = None
    """Of an attribute's value: the quotation mark around it, or nothing, if there is none."""

    def __call__(self, text: str) -> str:
        """`text` as markup that stands between tags, or in a tag as a value."""
        if self._spelling("&") == "&":
            text = _REFERENCE.sub(lambda found: ("&amp;" if _known(found[0]) else "&") + found[0][1:], text)
        text = text.translate(self._table(set(text)))
        if self.quote is not None:
            return text.translate(_IN_VALUE[self.quote])
        return _OPENING.sub("&lt;", text) if self._spelling("<") == "<" else text

    def _table(self, characters: set[str]) -> dict[int, str]:
        """Of those of `characters` that may be written otherwise, how they are.

        A table of all, kept, would be as large as the document's references, and each of its passages would have one.
        """
        references = (_ESCAPED, self.passage.references, self.document.references)
        return {ord(one): self._spelling(one) for known in references for one in characters & known.keys()}

    def _spelling(self, character: str) -> str:
        spelling = self.passage.of_passage(character) or self.document.of_document(character)
        return spelling or _ESCAPED.get(character, character)
