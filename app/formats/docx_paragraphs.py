"""Converts a Word paragraph to a passage and back.

Runs with the paragraph's main formatting are its text; other formatting, links and tracked insertions are tags around
theirs; fields, formulas and inline images are values of the sentence; notes, bookmarks, deletions and images beside the
text are marks. ECMA-376, part 1, chapter 17.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from lxml import etree

from app.formats.document import UnreadableDocument, bounded_list
from app.formats.docx_elements import characters, field_placeholder, fields, is_container, is_link, is_word, placeholder
from app.formats.passage_builder import PassageBuilder
from app.formats.xml_parts import Element, clean, local_name, reference, split_references
from app.markup.passage import Passage

_PROPERTIES = {"pPr", "rPr", "smartTagPr", "customXmlPr", "sdtPr", "sdtEndPr"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}
"""Annotations of the original text, which do not apply to the translation."""
_NOT_FORMAT = {"lang", "noProof", "rPrChange"}
_VISIBLE_ON_SPACE = {"u", "strike", "dstrike", "highlight", "shd", "bdr"}
"""Lines and colours: forms have underlined white space to fill in."""
MAX_COPIED_CHARS = 256 << 20
"""Limit on the formatting, in characters, that is copied into paragraphs. Properties that occur once in a file are
copied to each run of a paragraph, and may be megabytes long."""
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class _RunFormat(NamedTuple):
    """A run's formatting: equal for runs that look the same."""

    of_text: bytes
    of_space: bytes


_PLAIN = _RunFormat(b"", b"")


@dataclass
class _ContentItem:
    """A child of a run, with the run's properties, or of the paragraph or a container in it."""

    element: Element
    in_run: bool = False
    properties: Element | None = None
    text: str | None = None
    """Set if it is text."""
    format: _RunFormat = _PLAIN


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
    if sum(paragraph.copied_chars for paragraph in listed) > max_copied_chars:
        raise UnreadableDocument("The file has too much formatting.")
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

    @property
    def text_box(self) -> Element | None:
        """The enclosing element that is in the file twice, once for older readers, as text boxes are."""
        return next((e for e in [*self.element.iterancestors()][::-1] if local_name(e) == "AlternateContent"), None)

    @property
    def copied_chars(self) -> int:
        """The approximate number of characters of formatting that `fill` copies: for all runs, and for the text beside
        each target."""
        length = cache(_character_count)
        in_runs = sum(length(item.properties) for target in self.targets for item in target.items if item.in_run)
        of_text = (self.properties, *(target.properties for target in self.targets))
        return in_runs + (len(self.targets) + 1) * max(map(length, of_text))

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""
        _empty(self.element)
        _ContentWriter(self).fill(translation)

    def _collect_content(self, parent: Element) -> Element | None:
        """Collects the content of `parent`. Returns the properties of most of its text."""
        items = list(_content_items(parent))
        lengths: Counter[_RunFormat] = Counter()
        for item in items:
            lengths[item.format] += len((item.text or "").strip())
        main = max(lengths, key=lambda key: lengths[key], default=_PLAIN)
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

    def __init__(self, paragraph: Paragraph, items: Sequence[_ContentItem], main: _RunFormat) -> None:
        self.paragraph, self.items, self.main = paragraph, items, main
        self.builder = paragraph.builder
        self.format = main
        self.key: object = None
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
                self._text(item)
            elif not item.in_run and is_container(item.element):
                self._switch_format(self.main)
                self.paragraph.container(item.element)
            else:
                self._add_copied([item], placeholder(item.element))
            index += 1
        self._switch_format(self.main)

    def _text(self, item: _ContentItem) -> None:
        assert item.text is not None
        differs = item.format.of_space != self.format.of_space
        if differs or (item.format != self.format and item.text.strip()):
            self._switch_format(item.format, item.properties)
        self.builder.add_text(item.text)

    def _switch_format(self, new_format: _RunFormat, properties: Element | None = None) -> None:
        """Switches to another formatting."""
        if self.format not in (new_format, self.main):
            self.builder.close_tag(self.paragraph.refer(_Target(closes=True)), self.key)
        if new_format not in (self.format, self.main):
            self.key = object()
            self.builder.open_tag(self.paragraph.refer(_Target(opens=True, properties=properties)), self.key)
        self.format = new_format

    def _field(self, start: int, separator: int | None, end: int) -> int:
        """Collects a field: a value with all its content, except that a link's text is translated."""
        self._switch_format(self.main)
        instruction = "".join(
            item.element.text or "" for item in self.items[start:separator] if local_name(item.element) == "instrText"
        )
        if separator is None or not is_link(instruction):
            self._add_copied(self.items[start : end + 1], field_placeholder(instruction))
            return end + 1
        key = object()
        self.links.append((end, key))
        properties = next((a.properties for a in self.items[separator:end] if a.text is not None), None)
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
        self._switch_format(self.main)
        self.builder.close_tag(self.paragraph.refer(_Target([item], closes=True)), self.links.pop()[1])


@dataclass
class _ContentWriter:
    """Builds the content of a paragraph."""

    paragraph: Paragraph
    insertion_points: list[Element] = field(default_factory=list)
    """Insertion points, innermost last."""
    properties: list[Element | None] = field(default_factory=list)

    def fill(self, translation: str) -> None:
        self.insertion_points.append(self.paragraph.element)
        self.properties.append(self.paragraph.properties)
        split_references(translation, self._text, self._target)

    def _text(self, text: str) -> None:
        run = self._run(self.properties[-1])
        for part in re.split(r"([\t\n])", text):
            name = {"\t": "tab", "\n": "br"}.get(part, "t")
            if part:
                element = etree.SubElement(run, self._name(name))
            if part and name == "t":
                element.text = part
                element.set(_SPACE, "preserve")

    def _target(self, number: int) -> None:
        target = self.paragraph.targets[number]
        if target.closes:
            self.insertion_points.pop()
            self.properties.pop()
        for item in target.items:
            (self._run(item.properties) if item.in_run else self.insertion_points[-1]).append(item.element)
        if target.opens:
            self.properties.append(target.properties)
            container, point = target.container, self.insertion_points[-1]
            self.insertion_points.append(point if container is None else self._open_container(container))

    def _open_container(self, container: Element) -> Element:
        self.insertion_points[-1].append(container)
        _empty(_content_element(container))
        return _content_element(container)

    def _run(self, properties: Element | None) -> Element:
        run = etree.SubElement(self.insertion_points[-1], self._name("r"))
        if properties is not None:
            run.append(copy.deepcopy(properties))
        return run

    def _name(self, name: str) -> str:
        return f"{{{self.paragraph.namespace}}}{name}"


def _content_items(parent: Element) -> Iterator[_ContentItem]:
    for child in parent:
        name = local_name(child)
        if name in _PROPERTIES or name in _DROPPED:
            continue
        if name != "r" or not is_word(child):
            yield _ContentItem(child)
            continue
        properties = next((e for e in child if local_name(e) == "rPr"), None)
        format = _run_format(properties)
        for element in child:
            if local_name(element) not in _PROPERTIES | _DROPPED:
                yield _ContentItem(element, True, properties, characters(element), format)


def _run_format(properties: Element | None) -> _RunFormat:
    if properties is None:
        return _PLAIN
    by_element = {
        etree.tostring(e, with_tail=False): local_name(e) for e in properties if local_name(e) not in _NOT_FORMAT
    }
    of_space = (text for text, name in by_element.items() if name in _VISIBLE_ON_SPACE)
    return _RunFormat(b"".join(sorted(by_element)), b"".join(sorted(of_space)))


def _character_count(properties: Element | None) -> int:
    if properties is None:
        return 0
    return sum(
        len(text)
        for e in properties.iter()
        for text in (str(e.tag), e.text or "", *e.attrib.keys(), *e.attrib.values())
    )


def _content_element(container: Element) -> Element:
    return next((e for e in container if local_name(e) == "sdtContent"), container)


def _empty(element: Element) -> None:
    for child in list(element):
        if local_name(child) not in _PROPERTIES:
            element.remove(child)
