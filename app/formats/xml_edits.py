"""Changes parts of an XML document, and leaves every other character of it as it was.

A parser's tree does not say how attributes are quoted, which characters are written as references, or how lines end:
to write the tree would change all of that, and with it every line that a person compares.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from lxml import etree

from app.formats.document import UnreadableDocument, check_depth
from app.formats.encodings import BYTE_ORDER_MARKS
from app.formats.xml_parts import Element

START_TAG = re.compile(rb"<[^\s/>]++(?:\s++[^\s=/>]++\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'))*+\s*+/?>")
_ATTRIBUTE = re.compile(r"(?P<before>\s(?P<name>[^\s=]+)\s*=\s*)(?:\"[^\"]*\"|'[^']*')")
_NAMESPACE = re.compile(r"\sxmlns(?::([\w.-]+))?=\"([^\"]*)\"")
_MAX_NAMESPACES = 100
"""Declared around an element. Each new element is written with them first."""


class _Span(NamedTuple):
    """An element in the text, as byte offsets in UTF-8."""

    start: int
    content: int
    """The end of its start tag."""
    end: int


class XmlText:
    """The text of a document, and its elements in document order."""

    def __init__(self, content: bytes, declared: str) -> None:
        """`declared`: its encoding. Raises UnreadableDocument if Python lacks that."""
        self.encoding = next((name for bom, name in BYTE_ORDER_MARKS.items() if content.startswith(bom)), declared)
        try:
            self.utf8 = content.decode(self.encoding).encode()
            self.spans = _spans(self.utf8)
        except (LookupError, UnicodeDecodeError, expat.ExpatError) as error:
            raise UnreadableDocument(f"The file cannot be read as {declared}: {error}.") from None


class XmlEdits:
    """Changes to a document's text. `root`: its tree. Create the edits before the tree is changed."""

    def __init__(self, text: XmlText, root: Element) -> None:
        self._text, self._encoding = text.utf8, text.encoding
        self._line_end = "\r\n" if b"\r\n" in self._text else "\n"
        self._spans = dict(zip(root.iter(etree.Element), text.spans, strict=True))
        self._replacements: list[tuple[int, int, bytes]] = []

    def set_attributes(self, element: Element, attributes: Mapping[str, str]) -> None:
        """Sets attributes of an original element."""
        span = self._spans[element]
        left = dict(attributes)

        def with_value(found: re.Match[str]) -> str:
            name = found["name"]
            return f"{found['before']}{quoteattr(left.pop(name))}" if name in left else found[0]

        tag = _ATTRIBUTE.sub(with_value, self._text[span.start : span.content].decode())
        place = len(tag.removesuffix(">").removesuffix("/").rstrip())
        added = "".join(f" {name}={quoteattr(value)}" for name, value in left.items())
        self._replacements.append((span.start, span.content, f"{tag[:place]}{added}{tag[place:]}".encode()))

    def replace(self, old: Element, new: Element) -> None:
        """Replaces an original element by `new`, which has its place in the tree."""
        span = self._spans[old]
        self._replacements.append((span.start, span.end, self._written(new)))

    def insert_after(self, element: Element, new: Element) -> None:
        """Inserts `new`, which has its place in the tree, after an original element and the text that follows it."""
        end = self._spans[element].end
        place = self._text.index(b"<", end)
        self._replacements.append((place, place, self._written(new) + self._text[end:place]))

    def apply(self) -> bytes:
        """The changed document, in its encoding."""
        parts, done = [], 0
        for start, end, new in sorted(self._replacements):
            parts += [self._text[done:start], new]
            done = end
        return b"".join([*parts, self._text[done:]]).decode().encode(self._encoding, "xmlcharrefreplace")

    def _written(self, new: Element) -> bytes:
        """`new` in its place, with the document's line ends and without the namespaces declared around it."""
        parent = new.getparent()
        around = {} if parent is None else parent.nsmap
        text = etree.tostring(new, encoding="unicode", with_tail=False)
        tag_end = text.index(">")
        tag = _NAMESPACE.sub(lambda found: "" if around.get(found[1]) == found[2] else found[0], text[:tag_end])
        return (tag + text[tag_end:]).replace("\n", self._line_end).encode()


def _spans(text: bytes) -> list[_Span]:
    """The elements in document order. Raises ExpatError and UnreadableDocument."""
    spans: dict[int, _Span] = {}  # by start, since an element ends after those in it
    open_tags: list[tuple[int, int, int]] = []
    """Of each open element: its start tag, and the number of namespaces declared in it and around it."""
    parser = expat.ParserCreate("utf-8")

    def begin(_: str, attributes: dict[str, str]) -> None:
        start = parser.CurrentByteIndex
        tag = START_TAG.match(text, start)
        assert tag
        around = open_tags[-1][2] if open_tags else 0
        namespaces = around + sum(name.startswith("xmlns") for name in attributes)
        open_tags.append((*tag.span(), namespaces))
        check_depth(len(open_tags))
        if namespaces > _MAX_NAMESPACES:
            raise UnreadableDocument(f"The file declares over {_MAX_NAMESPACES} namespaces around an element.")

    def end(*_: object) -> None:
        start, content, _namespaces = open_tags.pop()
        is_empty = text.startswith(b"/>", content - 2)
        spans[start] = _Span(start, content, content if is_empty else text.index(b">", parser.CurrentByteIndex) + 1)

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.Parse(text, True)
    return [spans[start] for start in sorted(spans)]
