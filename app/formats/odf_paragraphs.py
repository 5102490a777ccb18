"""Converts an OpenDocument paragraph to a passage and back.

Spans and links are tags around their text, except spans whose style one does not see; fields, formulas and pictures in
the line are values of the sentence; notes, bookmarks, comments and pictures beside the text are marks. OASIS
OpenDocument 1.3, part 3, chapters 6 and 7.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable

from lxml import etree

from app.formats.passage_builder import PassageBuilder
from app.formats.xml_parts import Element, append_text, clean, local_name, reference, split_references, text_of
from app.markup.passage import OBJECT, VALUE, Passage

_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_PAIRED = {"span", "a", "meta"}
_MARKS = {"note", "soft-page-break"}
_FIELDS = {"header", "footer", "date-time"}
"""Of a slide."""
_CHARACTERS = {"tab": "\t", "line-break": "\n"}
_ELEMENTS = {character: name for name, character in _CHARACTERS.items()}
_WHITE_SPACE = re.compile(r"[ \t\r\n]+")
_ENCODED = re.compile(r"([\t\n]|(?<= ) +)")
"""Characters that have an element of their own."""
_INVISIBLE = {
    *("rsid", "paragraph-rsid", "language", "country", "script", "rfc-language-tag"),
    *(f"{name}-{kind}" for name in ("language", "country", "script") for kind in ("asian", "complex")),
}
"""Attributes of text that one does not see: who wrote it when, and its language."""


def invisible_styles(root: Element) -> frozenset[str]:
    """The styles of spans that look like the text beside them."""
    styles = (style for group in root if local_name(group) == "automatic-styles" for style in group)
    return frozenset(
        name
        for style in styles
        for attributes in [{etree.QName(key).localname: str(value) for key, value in style.attrib.items()}]
        if (name := attributes.get("name")) and attributes.get("family") == "text"
        if "parent-style-name" not in attributes
        if {etree.QName(key).localname for properties in style for key in properties.attrib} <= _INVISIBLE
        if not any(len(properties) for properties in style)
    )


class Paragraph:
    """A text:p or text:h element. Its passage's text is empty if there is nothing to translate."""

    def __init__(self, element: Element, invisible: frozenset[str] = frozenset()) -> None:
        self.element = element
        self.elements: list[Element | None] = []
        """By number: an element, or None where one closes."""
        self.builder = PassageBuilder()
        self._invisible = invisible
        self._ends_in_space = True
        """Whether more white space would not be displayed."""
        self.collect(element)
        self.passage = self.builder.build_translatable(clean) or Passage("")

    may_have_copy = False

    def collect(self, element: Element) -> None:
        """Adds the content of an element."""
        self.add_text(element.text or "")
        for child in element:
            self.add_child(child)
            self.add_text(child.tail or "")

    def refer(self, element: Element | None) -> str:
        """A reference to an element, or to the end of the one that was opened last."""
        self.elements.append(element)
        return reference(len(self.elements) - 1)

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""
        _empty(self.element)
        open_elements = [self.element]
        used = set[int]()
        for part in split_references(translation):
            if isinstance(part, str):
                _write_text(open_elements[-1], part)
                continue
            element = self.elements[part]
            if element is None:
                open_elements.pop()
                continue
            if part in used:  # in another branch of a message
                element = copy.deepcopy(element)
            used.add(part)
            element.tail = None
            open_elements[-1].append(element)
            if local_name(element) in _PAIRED and etree.QName(element).namespace == _TEXT:
                _empty(element)
                open_elements.append(element)

    def add_text(self, text: str) -> None:
        shown = _WHITE_SPACE.sub(" ", text)
        self._add(shown[1:] if self._ends_in_space and shown.startswith(" ") else shown)

    def add_child(self, element: Element) -> None:
        name = local_name(element)
        if not name:
            self.builder.add_mark(self.refer(element))
        elif etree.QName(element).namespace == _TEXT:
            self._add_text_element(name, element)
        elif name in _FIELDS and "presentation" in (etree.QName(element).namespace or ""):
            self._add_protected(VALUE, element)
        elif any(map(_is_in_line, [element, *list(element)[:1]])):
            self._add_protected(OBJECT, element)
        else:
            self.builder.add_mark(self.refer(element))

    @property
    def shown(self) -> str:
        """The text that it displays."""
        return self.builder.build(clean).text

    def _add_text_element(self, name: str, element: Element) -> None:
        """Adds an element of the namespace of text."""
        if name in _CHARACTERS:
            self._add(_CHARACTERS[name])
        elif name == "s":  # whose count may be absurd
            self.builder.add_mark(self.refer(element), space=True)
            self._add("" if self._ends_in_space else " ")
            self._ends_in_space = False
        elif name == "span" and element.get(f"{{{_TEXT}}}style-name") in self._invisible:
            self.collect(element)
        elif name in _PAIRED:
            key = object()
            self.builder.open_tag(self.refer(element), key)
            self.collect(element)
            self.builder.close_tag(self.refer(None), key)
        elif name == "ruby":  # how a word is read, which does not apply to a translation
            for base in element:
                if local_name(base) == "ruby-base":
                    self.collect(base)
        elif name == "soft-page-break":
            pass
        elif name not in _MARKS and text_of(element).strip():
            self._add_protected(VALUE, element)
        else:
            self.builder.add_mark(self.refer(element))

    def _add(self, text: str) -> None:
        if text:
            self.builder.add_text(text)
            self._ends_in_space = text[-1].isspace()

    def _add_protected(self, text: str, element: Element) -> None:
        self.builder.add_protected(text, self.refer(element))
        self._ends_in_space = False


def _write_text(parent: Element, text: str) -> None:
    """Appends text to an element."""
    for index, part in enumerate(_ENCODED.split(text)):
        if index % 2 == 0:
            append_text(parent, part)
        elif part in _ELEMENTS:
            etree.SubElement(parent, f"{{{_TEXT}}}{_ELEMENTS[part]}")
        else:
            etree.SubElement(parent, f"{{{_TEXT}}}s", {f"{{{_TEXT}}}c": str(len(part))})


def _empty(element: Element) -> None:
    for child in list(element):
        element.remove(child)
    element.text = None


def state_values(changed: Iterable[Element]) -> None:
    """Sets the values of cells that state their text, after these paragraphs and other elements were changed."""
    for cell, tag in dict.fromkeys((element.getparent(), element.tag) for element in changed):
        if cell is not None and f"{{{_OFFICE}}}string-value" in cell.attrib:
            lines = (Paragraph(each).shown for each in cell if each.tag == tag)
            cell.set(f"{{{_OFFICE}}}string-value", clean("\n".join(lines)))


def _is_in_line(element: Element) -> bool:
    """Whether a picture or a formula is in the line, and not beside the text."""
    return any(str(name).endswith("}anchor-type") and value == "as-char" for name, value in element.attrib.items())
