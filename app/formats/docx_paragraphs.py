"""Converts a Word paragraph to a passage and back.

Runs with the paragraph's main formatting are its text; other formatting, links and tracked insertions are tags around
theirs; fields, formulas and inline images are values of the sentence; notes, bookmarks, deletions and images beside the
text are marks. ECMA-376, part 1, chapter 17.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from lxml import etree

from app.formats.document import bounded_list
from app.formats.docx_elements import characters, field_placeholder, fields, is_container, is_link, is_word, placeholder
from app.formats.passage_builder import PassageBuilder
from app.formats.run_formats import (
    MAX_COPIED_CHARS,
    PLAIN,
    FormatRules,
    FormatTags,
    RunFormat,
    character_count,
    check_copied,
    main_format,
)
from app.formats.xml_parts import Element, clean, local_name, reference, split_references
from app.markup.passage import Passage

_PROPERTIES = {"pPr", "rPr", "smartTagPr", "customXmlPr", "sdtPr", "sdtEndPr"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}
"""Annotations of the original text, which do not apply to the translation."""
_RULES = FormatRules(
    ignored=frozenset({"lang", "noProof", "rPrChange"}),
    # Lines and colours: forms have underlined white space to fill in.
    on_space=frozenset({"u", "strike", "dstrike", "highlight", "shd", "bdr"}),
)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


@dataclass
class _ContentItem:
    """A child of a run, with the run's properties, or of the paragraph or a container in it."""

    element: Element
    in_run: bool = False
    properties: Element | None = None
    text: str | None = None
    """Set if it is text."""
    format: RunFormat = PLAIN


@dataclass
class _Target:
    """The target of a reference: content copied to the translation, and what opens or closes there."""

    items: Sequence[_ContentItem] = ()
    opens: bool = False
    closes: bool = False
    container: Element | None = None
    properties: Element | None = None
    """Of the text inside."""


def paragraphs(root: Element, max_copied_chars: int = MAX_COPIED_CHARS) -> list[Paragraph]:
    """The paragraphs with something to translate, including text boxes and tables, in order.

    Raises UnreadableDocument.
    """
    found = bounded_list(
        element for element in root.iter(etree.Element) if local_name(element) == "p" and is_word(element)
    )
    listed = [paragraph for paragraph in map(Paragraph, found) if paragraph.passage.text]
    check_copied((paragraph.copied_chars for paragraph in listed), max_copied_chars)
    return listed


class Paragraph:
    """A w:p element. Its passage's text is empty if there is nothing to translate."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.namespace = etree.QName(element).namespace
        self.targets: list[_Target] = []
        self.builder = PassageBuilder()
        self.properties = self._collect_content(element)
        self.passage = self.builder.build_translatable(clean) or Passage("")

    may_have_copy = True
    """Text boxes are in the file twice, once for older readers."""

    @property
    def copied_chars(self) -> int:
        """The approximate number of characters of formatting that `fill` copies: for all runs, and for the text beside
        each target."""
        length = cache(character_count)
        in_runs = sum(length(item.properties) for target in self.targets for item in target.items if item.in_run)
        of_text = (self.properties, *(target.properties for target in self.targets))
        return in_runs + (len(self.targets) + 1) * max(map(length, of_text))

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""
        _empty(self.element)
        opened = [(self.element, self.properties)]
        """Where to insert, with the properties of text there; innermost last."""
        for part in split_references(translation):
            if isinstance(part, str):
                self._write_text(self._new_run(*opened[-1]), part)
                continue
            target = self.targets[part]
            if target.closes:
                opened.pop()
            point, _ = opened[-1]
            for item in target.items:
                (self._new_run(point, item.properties) if item.in_run else point).append(item.element)
            if target.container is not None:
                point.append(target.container)
                point = _content_element(target.container)
                _empty(point)
            if target.opens:
                opened.append((point, target.properties))

    def _write_text(self, run: Element, text: str) -> None:
        for part in filter(None, re.split(r"([\t\n])", text)):
            name = {"\t": "tab", "\n": "br"}.get(part, "t")
            element = etree.SubElement(run, self._name(name))
            if name == "t":
                element.text = part
                element.set(_SPACE, "preserve")

    def _new_run(self, parent: Element, properties: Element | None) -> Element:
        run = etree.SubElement(parent, self._name("r"))
        if properties is not None:
            run.append(copy.deepcopy(properties))
        return run

    def _name(self, name: str) -> str:
        return f"{{{self.namespace}}}{name}"

    def _collect_content(self, parent: Element) -> Element | None:
        """Collects the content of `parent`. Returns the properties of most of its text."""
        items = list(_content_items(parent))
        main = main_format((item.format, item.text or "") for item in items)
        _Collector(self, items, main).collect()
        return next((item.properties for item in items if item.text is not None and item.format == main), None)

    def refer(self, target: _Target) -> str:
        self.targets.append(target)
        return reference(len(self.targets) - 1)

    def container(self, element: Element) -> None:
        """Collects a container: a tag around its content."""
        key, target = object(), _Target(opens=True, container=element)
        self.builder.open_tag(self.refer(target), key)
        target.properties = self._collect_content(_content_element(element))
        self.builder.close_tag(self.refer(_Target(closes=True)), key)


class _Collector:
    """Walks through the items of a paragraph or container whose main format is `main`."""

    def __init__(self, paragraph: Paragraph, items: Sequence[_ContentItem], main: RunFormat) -> None:
        self.paragraph, self.items = paragraph, items
        self.builder = paragraph.builder
        self.formats = FormatTags(
            self.builder,
            main,
            lambda properties: paragraph.refer(_Target(opens=True, properties=properties)),
            lambda: paragraph.refer(_Target(closes=True)),
        )
        self.next_texts = [len(items)] * (len(items) + 1)
        """For each item, the index of the first from there that is text."""
        for index in range(len(items) - 1, -1, -1):
            self.next_texts[index] = self.next_texts[index + 1] if items[index].text is None else index
        self.links: list[tuple[int, object]] = []
        """Open link fields, with their ends."""

    def collect(self) -> None:
        found = fields([item.element for item in self.items])
        index = 0
        while index < len(self.items):
            item = self.items[index]
            if self.links and self.links[-1][0] == index:
                self._close_link(item)
            elif index in found:
                index = self._field(index, *found[index])
                continue
            elif item.text is not None:
                self.formats.add_text(item.text, item.format, item.properties)
            elif not item.in_run and is_container(item.element):
                self.formats.end()
                self.paragraph.container(item.element)
            else:
                self._add_copied([item], placeholder(item.element))
            index += 1
        self.formats.end()

    def _field(self, start: int, separator: int | None, end: int) -> int:
        """Collects a field: a value with all its content, except that a link's text is translated."""
        self.formats.end()
        instruction = "".join(
            item.element.text or "" for item in self.items[start:separator] if local_name(item.element) == "instrText"
        )
        if separator is None or not is_link(instruction):
            self._add_copied(self.items[start : end + 1], field_placeholder(instruction))
            return end + 1
        key = object()
        self.links.append((end, key))
        text = self.next_texts[separator]
        properties = self.items[text].properties if text < end else None
        target = _Target(self.items[start : separator + 1], opens=True, properties=properties)
        self.builder.open_tag(self.paragraph.refer(target), key)
        return separator + 1

    def _add_copied(self, items: Sequence[_ContentItem], text: str) -> None:
        """Adds content to copy: as a value if it displays one, otherwise as a mark."""
        raw = self.paragraph.refer(_Target(items))
        if text:
            self.builder.add_protected(text, raw)
        else:
            self.builder.add_mark(raw)

    def _close_link(self, item: _ContentItem) -> None:
        self.formats.end()
        self.builder.close_tag(self.paragraph.refer(_Target([item], closes=True)), self.links.pop()[1])


def _content_items(parent: Element) -> Iterator[_ContentItem]:
    for child in parent:
        name = local_name(child)
        if name in _PROPERTIES or name in _DROPPED:
            continue
        if name != "r" or not is_word(child):
            yield _ContentItem(child)
            continue
        properties = next((e for e in child if local_name(e) == "rPr"), None)
        format = _RULES.format_of(properties)
        for element in child:
            if local_name(element) not in _PROPERTIES | _DROPPED:
                yield _ContentItem(element, True, properties, characters(element), format)


def _content_element(container: Element) -> Element:
    return next((e for e in container if local_name(e) == "sdtContent"), container)


def _empty(element: Element) -> None:
    for child in list(element):
        if local_name(child) not in _PROPERTIES:
            element.remove(child)
