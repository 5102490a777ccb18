"""Character references of HTML and XML: their meaning, and how a document encodes characters."""

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
"""By the quotation mark around a value: characters that must be escaped in it."""
_OPENING = re.compile(r"<(?=[A-Za-z/!?%_:\u0080-\U0010ffff]|\Z)")
"""A "<" that a parser may take for the beginning of a tag."""


class TextPart(NamedTuple):
    """A part of the text between tags: plain characters, for which `raw == text`, or one reference.

    `text` is None for a reference that only the document's own definitions explain.
    """

    raw: str
    text: str | None


def split_references(text: str) -> Iterator[TextPart]:
    """The parts of `text`, whose `raw` joined are `text`. A stray "&" counts as plain."""
    done = 0
    for found in _REFERENCE.finditer(text):
        raw = _known_prefix(found[0])
        if not raw and found[0][1] != "#" and found[0].endswith(";"):
            raw = found[0]
        if not raw:
            continue
        if done < found.start():
            yield TextPart(text[done : found.start()], text[done : found.start()])
        yield TextPart(raw, unescape(raw) if _known_prefix(raw) else None)
        done = found.start() + len(raw)
    if done < len(text):
        yield TextPart(text[done:], text[done:])


def _known_prefix(reference: str) -> str:
    """The longest prefix that HTML knows, or nothing. Legacy names need no semicolon: `&copy2020`."""
    if reference[1] == "#":
        return reference
    name = reference[1:]
    # Names that need no semicolon have 2 to 6 letters.
    ends = [len(name), *range(min(len(name), 6), 1, -1)]
    return next((reference[: end + 1] for end in ends if name[:end] in html5), "")


@dataclass
class Spellings:
    """How a piece of markup encodes characters: the first reference to each, and the characters written plainly."""

    references: dict[str, str] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)

    def add(self, part: TextPart) -> None:
        """Records the spelling of `part`."""
        if part.raw == part.text:
            self.plain.update(part.text)
        elif part.text and len(part.text) == 1:
            self.references.setdefault(part.text, part.raw.removesuffix(";") + ";")

    def of_passage(self, character: str) -> str | None:
        """The only spelling of `character`; of two, the plain one, if readable; None if it does not occur."""
        if character in self.references and (character not in self.plain or character in _ESCAPED):
            return self.references[character]
        return character if character in self.plain else None

    def of_document(self, character: str) -> str | None:
        """Its reference, if it is never written plainly."""
        return None if character in self.plain else self.references.get(character)


@dataclass(frozen=True, eq=False)
class Writer:
    """Encodes characters as the passage does, else as the document does, and escapes what must be escaped."""

    passage: Spellings
    document: Spellings
    quote: str | None = None
    """For an attribute's value: the quotation mark around it, or an empty string."""

    def __call__(self, text: str) -> str:
        """`text` as markup between tags, or as an attribute's value."""
        if self._spelling("&") == "&":
            text = _REFERENCE.sub(lambda found: ("&amp;" if _known_prefix(found[0]) else "&") + found[0][1:], text)
        text = text.translate(self._table(set(text)))
        if self.quote is not None:
            return text.translate(_IN_VALUE[self.quote])
        return _OPENING.sub("&lt;", text) if self._spelling("<") == "<" else text

    def _table(self, characters: set[str]) -> dict[int, str]:
        """Encodings of those of `characters` that may need one.

        Keeping a table of all would take as much memory as the document's references, once for each passage.
        """
        references = (_ESCAPED, self.passage.references, self.document.references)
        return {ord(one): self._spelling(one) for known in references for one in characters & known.keys()}

    def _spelling(self, character: str) -> str:
        spelling = self.passage.of_passage(character) or self.document.of_document(character)
        return spelling or _ESCAPED.get(character, character)
