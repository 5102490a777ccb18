"""Word documents: paragraphs of the body, tables, text boxes, headers, footers and notes; alternative texts of
pictures; the document's title, subject and description. Comments are not translated.

Uses lxml on the zip file: python-docx does not support text boxes and notes, and rewrites parts that did not change.
The elements of a paragraph are in app/formats/docx_paragraphs.py.
"""

from __future__ import annotations

from app.formats.document import Content
from app.formats.docx_paragraphs import paragraphs
from app.formats.package import Package
from app.formats.parts import CORE_PROPERTIES, Item, Part, Parts, core_properties, office_types, picture_descriptions
from app.formats.xml_parts import Element

_WORD = "wordprocessingml."
_MAIN = "wordprocessingml.document.main+xml"
_PARTS = (_MAIN, *(f"{_WORD}{kind}+xml" for kind in ("header", "footer", "footnotes", "endnotes")))


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    package = Package(content, ".docx")
    types = office_types(package, _MAIN, "a Word document")
    parts = [
        Part(
            name,
            core_properties if kind.endswith(CORE_PROPERTIES) else _items,
            label="" if kind.endswith(_MAIN) else name,
        )
        for name, kind in types.items()
        if kind.endswith((CORE_PROPERTIES, *_PARTS))
    ]
    return Parts(package, parts).content(package)


def _items(root: Element) -> list[Item]:
    """The translatable items of a part. Raises UnreadableDocument."""
    return [*paragraphs(root), *picture_descriptions(root, "docPr")]
