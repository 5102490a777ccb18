"""XML by its positions: where each element and its content is in the text, so that only content changes.

For catalogues whose strings are elements. Entities of the document's own are refused, never expanded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from app.formats.document import UnreadableDocument, check_depth
from app.formats.encodings import check_declared_encoding, decode
from app.markup.char_refs import split_references
from app.markup.passage import replaced

MAX_ELEMENTS = 400_000
"""Each takes some 500 bytes, and microseconds during which nothing else runs. A catalogue of 10 MiB has fewer."""
_HEAD_BYTES = 200
_START_TAG = re.compile(rb"<[^\s/>]++(?:\s++[^\s=/>]++\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'))*+\s*+/?>")
_ATTRIBUTE = re.compile(r"(?P<before>\s(?P<name>[^\s=]+)\s*=\s*)(?:\"[^\"]*\"|'[^']*')")
_DECLARED = re.compile(r"(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,100}?\sencoding\s*=\s*[\"']([\w.:-]+)[\"']")
_ASCII_LIKE = re.compile(r"(?:us-)?ascii|iso-?8859-\d{1,2}|windows-125\d|koi8-[ru]", re.IGNORECASE)
"""Encodings in which ASCII characters are themselves, besides UTF-8."""
CDATA = re.compile(r"<!\[CDATA\[([\s\S]*?)\]\]>")
_NOT_CHARACTERS = re.compile(r"<(?:!\[CDATA\[([\s\S]*?)(?:\]\]>|\Z)|!--[\s\S]*?(?:-->|\Z)|\?[\s\S]*?(?:\?>|\Z))")
"""CDATA, comments and instructions. In XML each ends; what only looks like one goes on to the end of the text."""
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_NO_CHILDREN: list[XmlNode] = []


@dataclass(eq=False, slots=True)
class XmlNode:
    """An element. `start`, `content`, `content_end` and `end` are characters of the text: its tags and what is between.

    In an element such as <a/> the content begins and ends at its end.
    """

    name: str
    """With its prefix, as written."""
    attributes: Mapping[str, str]
    parent: XmlNode | None
    start: int
    content: int = 0
    content_end: int = 0
    end: int = 0
    children: list[XmlNode] = field(default_factory=list)

    def find(self, name: str) -> XmlNode | None:
        """The first child with that name."""
        return next((child for child in self.children if child.local_name == name), None)

    def descendants(self, name: str) -> Iterator[XmlNode]:
        """The elements with that name in this one, in document order, without those in each other."""
        end = 0
        for node in self.walk():
            if node.local_name == name and node.start >= end:
                end = node.end
                yield node

    def walk(self) -> Iterator[XmlNode]:
        """All elements in this one, in document order."""
        waiting = self.children[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    @property
    def local_name(self) -> str:
        """Without its prefix."""
        return self.name.rpartition(":")[2]

    @property
    def is_empty_tag(self) -> bool:
        """Whether it is written as <a/>."""
        return self.content == self.end


def parse(content: bytes, what: str, root_name: str) -> tuple[str, Callable[[str], bytes], XmlNode]:
    """The text, what encodes it again, and the root. Raises UnreadableDocument; `what` says what was expected."""
    text, encode = _decode(content)
    root = _Parser(text).parse()
    if root.local_name != root_name:
        raise UnreadableDocument(f"The file is not {what}: its root is {clean(root.name)}.")
    return text, encode, root


def _decode(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    declared = _DECLARED.match(content[:_HEAD_BYTES].decode("latin-1"))
    name = declared[1] if declared else ""
    if not _ASCII_LIKE.fullmatch(name):
        check_declared_encoding(declared)
        return decode(content)
    try:
        return content.decode(name), lambda text: text.encode(name, "xmlcharrefreplace")
    except (LookupError, UnicodeDecodeError) as error:
        raise UnreadableDocument(f"The file cannot be read as {name}: {error}.") from None


class _Parser:
    def __init__(self, text: str) -> None:
        self.utf8 = text.encode()
        self.is_ascii = len(self.utf8) == len(text)
        self.count = 0
        self.known = (0, 0)
        """A byte, and the number of characters before it."""
        self.root: XmlNode | None = None
        self.open: XmlNode | None = None
        self.depth = 0

    def parse(self) -> XmlNode:
        self.parser = parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        try:
            parser.Parse(self.utf8, True)
        except expat.ExpatError as error:
            raise UnreadableDocument(f"The file is not well-formed XML: {error}.") from None
        assert self.root
        return self.root

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: bool) -> None:
        if has_internal_subset:
            self._entity()

    def _entity(self, *_: object) -> None:
        raise UnreadableDocument("The file has declarations in its DOCTYPE, which are not supported.")

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        self.depth += 1
        check_depth(self.depth)
        if self.count > MAX_ELEMENTS:
            raise UnreadableDocument(f"The file has over {MAX_ELEMENTS} elements. Split it.")
        start = self.parser.CurrentByteIndex
        tag = _START_TAG.match(self.utf8, start)
        assert tag
        node = XmlNode(name, attributes, self.open, self._characters(start))
        node.content = self._characters(tag.end())
        if self.utf8.startswith(b"/>", tag.end() - 2):
            node.content_end = node.end = node.content
        if self.open:
            self.open.children.append(node)
        else:
            self.root = node
        self.open = node

    def _end(self, _: str) -> None:
        node = self.open
        assert node
        if not node.end:
            start = self.parser.CurrentByteIndex
            node.content_end = self._characters(start)
            node.end = self._characters(self.utf8.index(b">", start) + 1)
        if not node.children:
            node.children = _NO_CHILDREN
        self.open = node.parent
        self.depth -= 1

    def _characters(self, place: int) -> int:
        """The number of characters before a byte; places come in order."""
        if self.is_ascii:
            return place
        byte, characters = self.known
        if place != byte:
            self.known = place, characters + len(self.utf8[byte:place].decode())
        return self.known[1]


def attribute_span(text: str, node: XmlNode, name: str) -> tuple[int, int] | None:
    """Where the value of an attribute is in the start tag, without its quotation marks."""
    pattern = rf"""\s{re.escape(name)}\s*=\s*(?:"([^"]*)"|'([^']*)')"""
    found = re.compile(pattern).search(text, node.start, node.content)
    return None if found is None else found.span(1 if found[1] is not None else 2)


def with_attributes(tag: str, attributes: Mapping[str, str]) -> str:
    """A start tag, in which these attributes have these values."""
    left = dict(attributes)

    def with_value(found: re.Match[str]) -> str:
        name = found["name"]
        return f"{found['before']}{quoteattr(left.pop(name))}" if name in left else found[0]

    tag = _ATTRIBUTE.sub(with_value, tag)
    place = len(tag.removesuffix(">").removesuffix("/").rstrip())
    return "".join([tag[:place], *(f" {name}={quoteattr(value)}" for name, value in left.items()), tag[place:]])


def plain_text(raw: str) -> str:
    """The characters of content without elements: references and CDATA resolved, comments left out."""
    return replaced(raw, ((*found.span(), found[1] or "") for found in _NOT_CHARACTERS.finditer(raw)), _unescape)


def plain_encoder(raw: str) -> Callable[[str], str]:
    """Encodes text as content like `raw`: in CDATA if that is, else with references for what needs them."""
    if CDATA.fullmatch(raw.strip()):
        lead, end = raw[: raw.index("<")], raw[raw.rindex(">") + 1 :]
        return lambda text: f"{lead}<![CDATA[{clean(text).replace(']]>', ']]]]><![CDATA[>')}]]>{end}"
    quoted = {character: reference for character, reference in (('"', "&quot;"), ("'", "&apos;")) if reference in raw}
    if ">" in raw:
        quoted[">"] = ">"
    return lambda text: escape(text, quoted)


def escape(text: str, spellings: Mapping[str, str] | None = None) -> str:
    """`text` as content of an element; `spellings`: of single characters."""
    known = _ESCAPED | dict(spellings or {})
    escaped = "".join(known.get(one, one) for one in clean(text))
    return escaped.replace("]]>", "]]&gt;")


def clean(text: str) -> str:
    """`text` without characters that XML does not allow."""
    return _NOT_XML.sub("", text)


def _unescape(raw: str) -> str:
    if "\r" in raw:
        raw = raw.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(part.raw if part.text is None else part.text for part in split_references(raw))
