"""Word documents: paragraphs of the body, tables, text boxes, headers, footers and notes. Comments stay.

lxml over the zip file: python-docx has no text boxes or notes, and writes parts anew that nobody asked it to. Which
elements of a paragraph are what is app/documents/docx_paragraphs.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.documents.document import Content, UnreadableDocument
from app.documents.docx_paragraphs import paragraphs
from app.documents.package import Package
from app.documents.xml_parts import Element, parsed, written
from app.weaving import unchanged

_WORD = "wordprocessingml."
_MAIN = "wordprocessingml.document.main+xml"
_PARTS = (_MAIN, *(f"{_WORD}{kind}+xml" for kind in ("header", "footer", "footnotes", "endnotes")))


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    package = Package(content)
    types = package.content_types()
    if not any(kind.endswith(_MAIN) for kind in types.values()):
        macros = any("macroEnabled" in kind for kind in types.values())
        raise UnreadableDocument(
            "The file has macros; save it as .docx." if macros else "The file is no Word document: it has no main part."
        )
    names = [name for name, kind in types.items() if kind.endswith(_PARTS)]
    parts = {name: package.read(name) for name in names}
    package.check()  # before the work, and not after it
    passages = [p.passage for name in names for p in paragraphs(parsed(parts[name], f"The part {name}"))]

    def write(translations: Sequence[str]) -> bytes:
        assert len(translations) == len(passages)
        waiting = iter(translations)
        changed = {}
        for name in names:
            root = parsed(parts[name], f"The part {name}")
            if _fill(root, waiting):
                changed[name] = written(root)
        return package.written(changed)

    return Content(passages, write)


def _fill(root: Element, translations: Iterator[str]) -> bool:
    """Puts the part's translations in; whether any differs from what was there."""
    differs = False
    for paragraph in paragraphs(root):
        translation = next(translations)
        if translation != unchanged(paragraph.passage):
            paragraph.fill(translation)
            differs = True
    return differs
