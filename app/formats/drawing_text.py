"""Paragraphs of slides, tables in them, shapes and diagrams: DrawingML (ECMA-376, part 1, chapter 21.1)."""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Iterator

from lxml import etree

from app.formats.document import bounded_list
from app.formats.run_formats import FormatRules, check_copied
from app.formats.runs import Run, RunParagraph
from app.formats.xml_parts import Element, local_name, text_of
from app.markup.passage import OBJECT, VALUE

_RULES = FormatRules(
    ignored=frozenset({"lang", "altLang", "noProof", "dirty", "err", "smtClean", "smtId", "bmk"}),
    on_space=frozenset({"u", "strike", "highlight"}),
)
_KEPT = {"pPr", "endParaRPr"}
_OBJECTS = {"m", "AlternateContent"}
"""Formulas."""


def drawing_paragraphs(root: Element) -> list[DrawingParagraph]:
    """The paragraphs with something to translate, in order. Raises UnreadableDocument."""
    found = bounded_list(element for element in root.iter("{*}p") if _is_drawing(element))
    listed = [paragraph for paragraph in map(DrawingParagraph, found) if paragraph.passage.text]
    check_copied(paragraph.copied_chars for paragraph in listed)
    return listed


class DrawingParagraph(RunParagraph):
    """An a:p element."""

    def __init__(self, element: Element) -> None:
        super().__init__(element, list(_runs(element)), _RULES)

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's. Line breaks stay those of the paragraph, as far as they go."""
        end = next((child for child in self.element if local_name(child) == "endParaRPr"), None)
        breaks = deque(child for child in self.element if local_name(child) == "br")
        for child in list(self.element):
            if local_name(child) not in _KEPT:
                self.element.remove(child)
        place = len(self.element) if end is None else self.element.index(end)
        self.element[place:place] = list(self._written(self.runs_of(translation), breaks))

    def _written(self, runs: list[Run], breaks: deque[Element]) -> Iterator[Element]:
        for run in runs:
            if run.text is None:
                assert isinstance(run.element, etree._Element)
                yield run.element
                continue
            for part in re.split(r"(\n)", run.text):
                if part == "\n":
                    yield breaks.popleft() if breaks else self._new("br", run.properties)
                elif part:
                    written = self._new("r", run.properties)
                    etree.SubElement(written, self._name("t")).text = part
                    yield written

    def _new(self, name: str, properties: Element | None) -> Element:
        element = self.element.makeelement(self._name(name))
        if properties is not None:
            element.append(copy.deepcopy(properties))
        return element

    def _name(self, name: str) -> str:
        return f"{{{etree.QName(self.element).namespace}}}{name}"


def _is_drawing(element: Element) -> bool:
    namespace = etree.QName(element).namespace or ""
    return "drawingml" in namespace and namespace.endswith("/main")


def _runs(paragraph: Element) -> Iterator[Run]:
    for child in paragraph:
        name = local_name(child)
        if name in _KEPT:
            continue
        properties = next((e for e in child if local_name(e) == "rPr"), None)
        if name == "r":
            yield Run("".join(e.text or "" for e in child if local_name(e) == "t"), properties)
        elif name == "br":
            yield Run("\n", properties)
        else:
            yield Run(element=child, placeholder=_placeholder(child))


def _placeholder(element: Element) -> str:
    if local_name(element) == "fld":
        return VALUE if text_of(element) else ""
    return OBJECT if local_name(element) in _OBJECTS else ""
