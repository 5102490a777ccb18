"""OpenDocument texts, spreadsheets and presentations: paragraphs and headings, in tables, frames and notes, too;
descriptions of pictures; a text's headers and footers; the footers of slides.

Formulas and their results, numbers, comments, deletions, embedded objects such as charts, styles, master pages and
metadata stay as they are. Paragraphs are in app/formats/odf_paragraphs.py. OASIS OpenDocument 1.3, part 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lxml import etree

from app.formats import MEDIA_TYPES
from app.formats.document import Content, UnreadableDocument, bounded_list
from app.formats.odf_paragraphs import Paragraph, invisible_styles, state_values
from app.formats.package import Package
from app.formats.parts import Item, Part, Parts, Property, with_letters
from app.formats.xml_parts import Element, local_name

_PARAGRAPHS = {"p", "h"}
_SKIPPED = {"annotation", "tracked-changes"}
"""Comments, and text that was deleted."""
_CELLS = {"table-cell", "covered-table-cell"}
_DESCRIPTIONS = {"title", "desc"}
_DECLARATIONS = {"footer-decl", "header-decl"}
"""The text of footers that slides show."""
_PAGE_PARTS = {f"{place}{pages}" for place in ("header", "footer") for pages in ("", "-left", "-first")}
_ENCRYPTED = re.compile(rb"encryption-data")
_MANIFEST = "META-INF/manifest.xml"


def read(content: bytes, suffix: str) -> Content:
    """`suffix`: .odt, .ods or .odp. Raises UnreadableDocument."""
    package = Package(content, suffix)
    kind = package.read("mimetype").decode("latin-1").strip()
    if not kind.startswith(MEDIA_TYPES[suffix]):
        raise UnreadableDocument(f"The file is not {suffix}: its type is {kind[:100]!a}.")
    package.check()
    if _MANIFEST in package.parts and package.holds(_MANIFEST, _ENCRYPTED):
        raise UnreadableDocument("The file is password-protected.")
    parts = [Part("content.xml", _items, _state_values)]
    if suffix == ".odt" and "styles.xml" in package.parts:
        parts.append(Part("styles.xml", _page_items, label="headers and footers"))
    return Parts(package, parts).content(package)


def _items(root: Element) -> list[Item]:
    """The translatable items of the content. Raises UnreadableDocument."""
    return _items_in([e for e in root if local_name(e) == "body"], invisible_styles(root))


def _state_values(items: Sequence[Item]) -> None:
    state_values(item.element for item in items if isinstance(item, Paragraph))


def _page_items(root: Element) -> list[Item]:
    """Those of the headers and footers."""
    return _items_in([e for e in root.iter(etree.Element) if local_name(e) in _PAGE_PARTS], invisible_styles(root))


def _items_in(parents: list[Element], invisible: frozenset[str]) -> list[Item]:
    found: list[Item] = []
    for element in bounded_list(each for parent in parents for each in _texts(parent)):
        if _kind(element) == "text":
            paragraph = Paragraph(element, invisible)
            found += [paragraph] if paragraph.passage.text else []
        else:
            found += with_letters(iter([Property(element)]))
    return found


def _texts(parent: Element) -> Iterator[Element]:
    """The paragraphs, descriptions and footers in an element, in order. Those in a paragraph come after it."""
    waiting = [parent]
    while waiting:
        element = waiting.pop()
        name = local_name(element)
        if name in _SKIPPED or (name in _CELLS and not _is_text_cell(element)):
            continue
        kind = _kind(element)
        if kind == "text" or (kind == "other" and not len(element)):
            yield element
        waiting += reversed(element)


def _kind(element: Element) -> str:
    """Whether it is text, other text without markup, or neither."""
    name, namespace = local_name(element), etree.QName(element).namespace if local_name(element) else ""
    if name in _PARAGRAPHS and ":text:" in (namespace or ""):
        return "text"
    is_other = (name in _DESCRIPTIONS and ":svg-compatible:" in (namespace or "")) or name in _DECLARATIONS
    return "other" if is_other else ""


def _is_text_cell(cell: Element) -> bool:
    """Whether a cell's text is its value: no result of a formula, number or date."""
    attributes = {etree.QName(name).localname: value for name, value in cell.attrib.items()}
    return "formula" not in attributes and attributes.get("value-type", "string") == "string"
