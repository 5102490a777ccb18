"""Converts the content of an element, text with elements in it, to a passage and back."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod

from app.formats.passage_builder import PassageBuilder
from app.formats.xml_parts import Element, append_text, reference, split_references


class InlineContent(ABC):
    """The content of `element`. A subclass collects it, and says which elements are tags around their content."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.elements: list[Element | None] = []
        """By number: an element, or None where one closes."""
        self.builder = PassageBuilder()

    @abstractmethod
    def add_text(self, text: str) -> None:
        """Adds text to the passage."""

    @abstractmethod
    def add_child(self, element: Element) -> None:
        """Adds an element to the passage."""

    @abstractmethod
    def is_open(self, element: Element) -> bool:
        """Whether an element of the passage is a tag around its content."""

    def write_text(self, parent: Element, text: str) -> None:
        """Appends text to an element."""
        append_text(parent, text)

    def collect(self, element: Element) -> None:
        """Adds the content of an element."""
        self.add_text(element.text or "")
        for child in element:
            self.add_child(child)
            self.add_text(child.tail or "")

    def add_open(self, element: Element) -> None:
        """Adds an element that is a tag around its content."""
        key = object()
        self.builder.open_tag(self.refer(element), key)
        self.collect(element)
        self.builder.close_tag(self.refer(None), key)

    def refer(self, element: Element | None) -> str:
        """A reference to an element, or to the end of the one that was opened last."""
        self.elements.append(element)
        return reference(len(self.elements) - 1)

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""
        _empty(self.element)
        open_elements = [self.element]
        used = set[int]()

        def add_element(number: int) -> None:
            element = self.elements[number]
            if element is None:
                open_elements.pop()
                return
            if number in used:  # in another branch of a message
                element = copy.deepcopy(element)
            used.add(number)
            element.tail = None
            open_elements[-1].append(element)
            if self.is_open(element):
                _empty(element)
                open_elements.append(element)

        split_references(translation, lambda text: self.write_text(open_elements[-1], text), add_element)


def _empty(element: Element) -> None:
    for child in list(element):
        element.remove(child)
    element.text = None
