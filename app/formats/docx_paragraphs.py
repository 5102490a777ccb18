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

from app.formats.document import UnreadableDocument, few
from app.formats.docx_elements import characters, field_shown, fields, is_container, is_link, is_word, shown
from app.formats.passage_builder import Collector
from app.formats.xml_parts import Element, clean, local, reference, resolved
from app.markup.passage import Passage

_PROPERTIES = {"pPr", "rPr", "smartTagPr", "customXmlPr", "sdtPr", "sdtEndPr"}
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}
"""Annotations of the original text, which do not apply to the translation."""
_NOT_FORMAT = {"lang", "noProof", "rPrChange"}
_SHOWS_ON_SPACE = {"u", "strike", "dstrike", "highlight", "shd", "bdr"}
"""Lines and colours: forms have underlined white space to fill in."""
_MOST_COPIED = 256 << 20
"""Limit on the formatting, in characters, that is copied into paragraphs. Properties that occur once in a file are
copied to each run of a paragraph, and may be megabytes long."""
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class _Look(NamedTuple):
    """A run's formatting: equal for runs that look the same."""

    of_text: bytes
    of_space: bytes


_PLAIN = _Look(b"", b"")


@dataclass
class _Atom:
    """A child of a run, with the run's properties, or of the paragraph or a container in it."""

    element: Element
    in_run: bool = False
    properties: Element | None = None
    text: str | None = None
    """Set if it is text."""
    format: _Look = _PLAIN


@dataclass
class _Thing:
    """The target of a reference: atoms that are kept, and what opens or closes there."""

    atoms: Sequence[_Atom] = ()
    opens: bool = False
    closes: bool = False
    container: Element | None = None
    properties: Element | None = None
    """Of the text inside."""


def paragraphs(root: Element) -> list[Paragraph]:
    """The paragraphs with something to translate, including text boxes and tables, in order.

    Raises UnreadableDocument.
    """
    found = few(element for element in root.iter(etree.Element) if local(element) == "p" and is_word(element))
    listed = [paragraph for paragraph in map(Paragraph, found) if paragraph.passage.text]
    if sum(paragraph.copied for paragraph in listed) > _MOST_COPIED:
        raise UnreadableDocument("The file has too much formatting.")
    return listed


class Paragraph:
    """A w:p element. Its passage's text is empty if there is nothing to translate."""

    def __init__(self, element: Element) -> None:
        self.element = element
        self.namespace = etree.QName(element).namespace
        self.things: list[_Thing] = []
        self.collector = Collector()
        self.properties = self._content(element)
        self.passage = self.collector.passage(clean) or Passage("")

    @property
    def box(self) -> Element | None:
        """The enclosing element that is in the file twice, once for older readers, as text boxes are."""
        return next((e for e in [*self.element.iterancestors()][::-1] if local(e) == "AlternateContent"), None)

    @property
    def copied(self) -> int:
        """The approximate number of characters of formatting that `fill` copies: for all runs, and for the text beside
        each thing."""
        length = cache(_length)
        in_runs = sum(length(atom.properties) for thing in self.things for atom in thing.atoms if atom.in_run)
        of_text = (self.properties, *(thing.properties for thing in self.things))
        return in_runs + (len(self.things) + 1) * max(map(length, of_text))

    def fill(self, translation: str) -> None:
        """Replaces the content by the translation's."""
        _empty(self.element)
        _Filler(self).fill(translation)

    def _content(self, parent: Element) -> Element | None:
        """Collects the content of `parent`. Returns the properties of most of its text."""
        atoms = list(_atoms(parent))
        lengths: Counter[_Look] = Counter()
        for atom in atoms:
            lengths[atom.format] += len((atom.text or "").strip())
        main = max(lengths, key=lambda key: lengths[key], default=_PLAIN)
        _Walk(self, atoms, main).walk()
        return next((atom.properties for atom in atoms if atom.text is not None and atom.format == main), None)

    def refer(self, thing: _Thing) -> str:
        self.things.append(thing)
        return reference(len(self.things) - 1)

    def container(self, element: Element) -> None:
        """Collects a container: a tag around its content."""
        key, thing = object(), _Thing(opens=True, container=element)
        self.collector.open(self.refer(thing), key)
        thing.properties = self._content(_inside(element))
        self.collector.close(self.refer(_Thing(closes=True)), key)


class _Walk:
    """Walks through the atoms of a paragraph or container whose main format is `main`."""

    def __init__(self, paragraph: Paragraph, atoms: Sequence[_Atom], main: _Look) -> None:
        self.paragraph, self.atoms, self.main = paragraph, atoms, main
        self.collector = paragraph.collector
        self.format = main
        self.key: object = None
        self.links: list[tuple[int, object]] = []
        """Open link fields, with their ends."""

    def walk(self) -> None:
        found = fields([atom.element for atom in self.atoms])
        index = 0
        while index < len(self.atoms):
            atom = self.atoms[index]
            if self.links and self.links[-1][0] == index:
                self._close_link(atom)
            elif index in found:
                index = self._field(index, *found[index])
                continue
            elif atom.text is not None:
                self._text(atom)
            elif not atom.in_run and is_container(atom.element):
                self._change(self.main)
                self.paragraph.container(atom.element)
            else:
                self._put([atom], shown(atom.element))
            index += 1
        self._change(self.main)

    def _text(self, atom: _Atom) -> None:
        assert atom.text is not None
        differs = atom.format.of_space != self.format.of_space
        if differs or (atom.format != self.format and atom.text.strip()):
            self._change(atom.format, atom.properties)
        self.collector.text(atom.text)

    def _change(self, wanted: _Look, properties: Element | None = None) -> None:
        """Switches to another formatting."""
        if self.format not in (wanted, self.main):
            self.collector.close(self.paragraph.refer(_Thing(closes=True)), self.key)
        if wanted not in (self.format, self.main):
            self.key = object()
            self.collector.open(self.paragraph.refer(_Thing(opens=True, properties=properties)), self.key)
        self.format = wanted

    def _field(self, start: int, separator: int | None, end: int) -> int:
        """Collects a field: a value with all its content, except that a link's text is translated."""
        self._change(self.main)
        instruction = "".join(
            atom.element.text or "" for atom in self.atoms[start:separator] if local(atom.element) == "instrText"
        )
        if separator is None or not is_link(instruction):
            self._put(self.atoms[start : end + 1], field_shown(instruction))
            return end + 1
        key = object()
        self.links.append((end, key))
        inside = next((a.properties for a in self.atoms[separator:end] if a.text is not None), None)
        thing = _Thing(self.atoms[start : separator + 1], opens=True, properties=inside)
        self.collector.open(self.paragraph.refer(thing), key)
        return separator + 1

    def _put(self, atoms: Sequence[_Atom], text: str) -> None:
        """Adds content that is kept: as a value, if it displays one, else as a mark."""
        raw = self.paragraph.refer(_Thing(atoms))
        if text:
            self.collector.keep(text, raw)
        else:
            self.collector.mark(raw)

    def _close_link(self, atom: _Atom) -> None:
        self._change(self.main)
        self.collector.close(self.paragraph.refer(_Thing([atom], closes=True)), self.links.pop()[1])


@dataclass
class _Filler:
    """Builds the content of a paragraph."""

    paragraph: Paragraph
    points: list[Element] = field(default_factory=list)
    """Insertion points, innermost last."""
    properties: list[Element | None] = field(default_factory=list)

    def fill(self, translation: str) -> None:
        self.points.append(self.paragraph.element)
        self.properties.append(self.paragraph.properties)
        resolved(translation, self._text, self._thing)

    def _text(self, text: str) -> None:
        run = self._run(self.properties[-1])
        for part in re.split(r"([\t\n])", text):
            name = {"\t": "tab", "\n": "br"}.get(part, "t")
            if part:
                element = etree.SubElement(run, self._name(name))
            if part and name == "t":
                element.text = part
                element.set(_SPACE, "preserve")

    def _thing(self, number: int) -> None:
        thing = self.paragraph.things[number]
        if thing.closes:
            self.points.pop()
            self.properties.pop()
        for atom in thing.atoms:
            (self._run(atom.properties) if atom.in_run else self.points[-1]).append(atom.element)
        if thing.opens:
            self.properties.append(thing.properties)
            self.points.append(self._opened(thing.container) if thing.container is not None else self.points[-1])

    def _opened(self, container: Element) -> Element:
        self.points[-1].append(container)
        _empty(_inside(container))
        return _inside(container)

    def _run(self, properties: Element | None) -> Element:
        run = etree.SubElement(self.points[-1], self._name("r"))
        if properties is not None:
            run.append(copy.deepcopy(properties))
        return run

    def _name(self, name: str) -> str:
        return f"{{{self.paragraph.namespace}}}{name}"


def _atoms(parent: Element) -> Iterator[_Atom]:
    for child in parent:
        name = local(child)
        if name in _PROPERTIES or name in _DROPPED:
            continue
        if name != "r" or not is_word(child):
            yield _Atom(child)
            continue
        properties = next((e for e in child if local(e) == "rPr"), None)
        look = _look(properties)
        for element in child:
            if local(element) not in _PROPERTIES | _DROPPED:
                yield _Atom(element, True, properties, characters(element), look)


def _look(properties: Element | None) -> _Look:
    if properties is None:
        return _PLAIN
    written = {etree.tostring(e, with_tail=False): local(e) for e in properties if local(e) not in _NOT_FORMAT}
    of_space = (text for text, name in written.items() if name in _SHOWS_ON_SPACE)
    return _Look(b"".join(sorted(written)), b"".join(sorted(of_space)))


def _length(properties: Element | None) -> int:
    if properties is None:
        return 0
    return sum(
        len(text)
        for e in properties.iter()
        for text in (str(e.tag), e.text or "", *e.attrib.keys(), *e.attrib.values())
    )


def _inside(container: Element) -> Element:
    return next((e for e in container if local(e) == "sdtContent"), container)


def _empty(element: Element) -> None:
    for child in list(element):
        if local(child) not in _PROPERTIES:
            element.remove(child)
