"""Word documents: paragraphs of the body, tables, text boxes, headers, footers and notes; alternative texts of
pictures; the document's title, subject and description. Comments are not translated.

Uses lxml on the zip file: python-docx does not support text boxes and notes, and rewrites parts that did not change.
The elements of a paragraph are in app/formats/docx_paragraphs.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from lxml import etree

from app.formats.document import Content, TextLocation, UnreadableDocument
from app.formats.docx_paragraphs import Paragraph, paragraphs
from app.formats.package import Package
from app.formats.xml_parts import Element, clean, local_name, parse_xml, serialize
from app.markup.passage import Passage
from app.markup.render import render_source

_WORD = "wordprocessingml."
_MAIN = "wordprocessingml.document.main+xml"
_CORE_PROPERTIES = "package.core-properties+xml"
_PARTS = (_CORE_PROPERTIES, _MAIN, *(f"{_WORD}{kind}+xml" for kind in ("header", "footer", "footnotes", "endnotes")))
_PROPERTIES = {"title", "subject", "description"}
"""Document properties that are text for readers (ECMA-376, part 2, chapter 11)."""
_PICTURE_ATTRIBUTES = ("title", "descr")


class _Property(NamedTuple):
    """An attribute of an element, or its text, without markup."""

    element: Element
    attribute: str = ""

    @property
    def passage(self) -> Passage:
        text = self.element.get(self.attribute) if self.attribute else self.element.text
        return Passage(text or "", write=clean)

    @property
    def text_box(self) -> None:
        return None

    def fill(self, translation: str) -> None:
        if self.attribute:
            self.element.set(self.attribute, clean(translation))
        else:
            self.element.text = clean(translation)


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    package = Package(content)
    types = package.content_types()
    if not any(kind.endswith(_MAIN) for kind in types.values()):
        macros = any("macroEnabled" in kind for kind in types.values())
        raise UnreadableDocument(
            "The file has macros; save it as .docx."
            if macros
            else ("The file is not a Word document: it has no main part.")
        )
    names = [name for name, kind in types.items() if kind.endswith(_PARTS)]
    parts = {name: package.read(name) for name in names}
    package.check()  # before the work rather than after it
    passages: list[Passage] = []
    locations: list[TextLocation] = []
    for name in names:
        items = _items(parse_xml(parts[name], f"The part {name}"))
        part_passages = dict(zip(_translation_numbers(items), (item.passage for item in items), strict=True)).values()
        passages += part_passages
        part = "" if types[name].endswith(_MAIN) else f"{name}, "
        locations += (TextLocation(name=f"{part}paragraph {number}") for number in range(1, len(part_passages) + 1))

    def write(translations: Sequence[str]) -> bytes:
        assert len(translations) == len(passages)
        remaining = iter(translations)
        changed = {}
        for name in names:
            root = parse_xml(parts[name], f"The part {name}")
            if _fill_part(root, remaining):
                changed[name] = serialize(root)
        return package.with_parts(changed)

    return Content(passages, write, locations)


def _items(root: Element) -> list[Paragraph | _Property]:
    """The translatable items of a part. Raises UnreadableDocument."""
    if local_name(root) == "coreProperties":
        properties = [_Property(element) for element in root if local_name(element) in _PROPERTIES and not len(element)]
    else:
        pictures = [element for element in root.iter(etree.Element) if local_name(element) == "docPr"]
        properties = [_Property(e, name) for e in pictures for name in _PICTURE_ATTRIBUTES if e.get(name)]
    return [*paragraphs(root), *(item for item in properties if any(map(str.isalpha, item.passage.text)))]


def _translation_numbers(items: Sequence[Paragraph | _Property]) -> list[int]:
    """Numbers the translations; both copies of a text box get the same one."""
    numbers: dict[Hashable, int] = {}
    keys = ((item.text_box, item.passage) if item.text_box is not None else object() for item in items)
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _fill_part(root: Element, remaining: Iterator[str]) -> bool:
    """Inserts the part's translations, and returns whether any of them changed it."""
    is_changed = False
    items = _items(root)
    translations: list[str] = []
    for number, item in zip(_translation_numbers(items), items, strict=True):
        if number == len(translations):
            translations.append(next(remaining))
        if translations[number] != render_source(item.passage):
            item.fill(translations[number])
            is_changed = True
    return is_changed
