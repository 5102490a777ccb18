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
from app.formats.xml_parts import Element, clean, local, parsed, written
from app.markup.passage import Passage
from app.markup.render import unchanged

_WORD = "wordprocessingml."
_MAIN = "wordprocessingml.document.main+xml"
_ABOUT = "package.core-properties+xml"
_PARTS = (_ABOUT, _MAIN, *(f"{_WORD}{kind}+xml" for kind in ("header", "footer", "footnotes", "endnotes")))
_PROPERTIES = {"title", "subject", "description"}
"""Document properties that are text for readers (ECMA-376, part 2, chapter 11)."""
_OF_PICTURES = ("title", "descr")


class _Property(NamedTuple):
    """An attribute of an element, or its text, without markup."""

    element: Element
    attribute: str = ""

    @property
    def passage(self) -> Passage:
        said = self.element.get(self.attribute) if self.attribute else self.element.text
        return Passage(said or "", write=clean)

    @property
    def box(self) -> None:
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
        held = _held(parsed(parts[name], f"The part {name}"))
        found = dict(zip(_numbers(held), (one.passage for one in held), strict=True)).values()
        passages += found
        part = "" if types[name].endswith(_MAIN) else f"{name}, "
        locations += (TextLocation(name=f"{part}paragraph {number}") for number in range(1, len(found) + 1))

    def write(translations: Sequence[str]) -> bytes:
        assert len(translations) == len(passages)
        waiting = iter(translations)
        changed = {}
        for name in names:
            root = parsed(parts[name], f"The part {name}")
            if _fill(root, waiting):
                changed[name] = written(root)
        return package.written(changed)

    return Content(passages, write, locations)


def _held(root: Element) -> list[Paragraph | _Property]:
    """The translatable items of a part. Raises UnreadableDocument."""
    if local(root) == "coreProperties":
        said = [_Property(element) for element in root if local(element) in _PROPERTIES and not len(element)]
    else:
        pictures = [element for element in root.iter(etree.Element) if local(element) == "docPr"]
        said = [_Property(e, name) for e in pictures for name in _OF_PICTURES if e.get(name)]
    return [*paragraphs(root), *(one for one in said if any(map(str.isalpha, one.passage.text)))]


def _numbers(held: Sequence[Paragraph | _Property]) -> list[int]:
    """Numbers the translations; both copies of a text box get the same one."""
    known: dict[Hashable, int] = {}
    keys = ((one.box, one.passage) if one.box is not None else object() for one in held)
    return [known.setdefault(key, len(known)) for key in keys]


def _fill(root: Element, waiting: Iterator[str]) -> bool:
    """Inserts the part's translations, and returns whether any of them changed it."""
    differs = False
    held = _held(root)
    translations: list[str] = []
    for number, one in zip(_numbers(held), held, strict=True):
        if number == len(translations):
            translations.append(next(waiting))
        if translations[number] != unchanged(one.passage):
            one.fill(translations[number])
            differs = True
    return differs
