"""PowerPoint presentations: the text of slides, with their tables, shapes and SmartArt, and of their notes; alternative
texts of pictures; the presentation's title, subject and description.

Charts, comments, masters and layouts stay as they are. Text is in app/formats/drawing_text.py. ECMA-376, part 1,
chapter 19.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.formats.document import Content, UnreadableDocument
from app.formats.drawing_text import drawing_paragraphs
from app.formats.package import Package
from app.formats.parts import CORE_PROPERTIES, Item, Part, Parts, core_properties, office_types, picture_descriptions
from app.formats.xml_parts import Element, local_name

_MAIN = "presentationml.presentation.main+xml"
_OF_SLIDES = {"notesSlide": "notes", "diagramData": "diagram", "diagramDrawing": "picture of the diagram"}
"""By relationship, parts of a slide, and what they are called."""


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    package = Package(content, ".pptx")
    types = office_types(package, _MAIN, "a PowerPoint presentation")
    main = next(name for name, kind in types.items() if kind.endswith(_MAIN))
    about = [Part(name, core_properties, label=name) for name, kind in types.items() if kind.endswith(CORE_PROPERTIES)]
    return Parts(package, [*_slide_parts(package, main), *about]).content(package)


def _slide_parts(package: Package, main: str) -> Iterator[Part]:
    """The slides, in their order, each with its other parts. Raises UnreadableDocument."""
    slides = {each.id: each.target for each in package.relationships(main, {"slide"})}
    listed = (e for each in package.parse(main) if local_name(each) == "sldIdLst" for e in each)
    references = (value for e in listed for name, value in e.attrib.items() if str(name).endswith("}id"))
    seen = set[str]()
    for number, reference in enumerate(references, 1):
        if reference not in slides:
            raise UnreadableDocument(f"The part {main} lists slide {number}, which the file does not have.")
        slide = slides[reference]
        if slide in seen:
            continue
        seen.add(slide)
        yield Part(slide, _items, label=f"slide {number}")
        for related in package.relationships(slide, _OF_SLIDES):
            yield Part(related.target, _items, label=f"slide {number}, {_OF_SLIDES[related.kind]}")


def _items(root: Element) -> list[Item]:
    return [*drawing_paragraphs(root), *picture_descriptions(root, "cNvPr")]
