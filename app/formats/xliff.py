"""XLIFF 1.x and 2.x: source to target, where there is none yet, marked as a machine's.

Left alone: what says translate="no" or approved, and targets with text, unless their state is that of one to be made.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence

from lxml import etree

from app.documents.document import Content, UnreadableDocument, few
from app.documents.elements import Collector
from app.documents.xml_parts import Element, clean, local, parsed, reference, resolved, text_of, written
from app.passage import Passage
from app.weaving import unchanged
from model.languages import language_alone

_TO_DO = {"new", "needs-translation", "initial"}
_PAIRED = {"g", "pc", "mrk"}
_BEGINS, _ENDS = {"bpt", "bx", "sc", "sm"}, {"ept", "ex", "ec", "em"}
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_WRAPPED = re.compile(r"[ \t]*[\r\n]\s*")


def read(content: bytes, target: str = "") -> Content:
    """`target` is the language that the file is to say it is translated into. Raises UnreadableDocument."""
    found = [_Inline(holder) for holder in few(_holders(parsed(content, "The XLIFF file")))]
    passages = [inline.passage for inline in found]
    chosen = [number for number, passage in enumerate(passages) if passage]

    def write(translations: Sequence[str]) -> bytes:
        root = parsed(content, "The XLIFF file")
        by_number = dict(zip(chosen, translations, strict=True))
        for number, holder in enumerate(list(_holders(root))):
            inline = _Inline(holder)
            if number in by_number and inline.passage and by_number[number] != unchanged(inline.passage):
                inline.fill(by_number[number])
        if target:
            _name_language(root, target)
        return written(root)

    return Content([passage for passage in passages if passage], write)


def _holders(root: Element) -> Iterator[Element]:
    """The elements of new targets that hold a passage, each with what its source has. The targets are put in place."""
    if local(root) != "xliff":
        raise UnreadableDocument(f"The file is not XLIFF: its root is {clean(local(root))}.")
    is_2 = (root.get("version") or "").startswith("2")
    for unit in [e for e in root.iter(etree.Element) if local(e) == ("segment" if is_2 else "trans-unit")]:
        source = _child(unit, "source")
        if source is None or not _is_to_do(unit, source, is_2):
            continue
        yield from _new_target(unit, source, is_2)


def _is_to_do(unit: Element, source: Element, is_2: bool) -> bool:
    if any(e.tag == unit.tag for e in unit.iterancestors()):  # which is none of XLIFF's, and would be copied with each
        return False
    marked = next((e.get("translate") for e in [unit, *unit.iterancestors()] if e.get("translate")), "yes")
    if marked == "no" or unit.get("approved") == "yes" or not any(map(str.isalpha, text_of(source))):
        return False
    target = _child(unit, "target")
    if target is None or not text_of(target).strip():
        return True
    return (unit if is_2 else target).get("state") in _TO_DO


def _new_target(unit: Element, source: Element, is_2: bool) -> Iterator[Element]:
    segmented = _child(unit, "seg-source")
    before = source if segmented is None else segmented
    old = _child(unit, "target")
    new = copy.deepcopy(before)
    new.tag = etree.QName(etree.QName(source).namespace, "target").text
    for name in list(new.attrib):
        if name != _SPACE:
            del new.attrib[name]
    if old is None:
        new.tail, before.tail = before.tail, before.tail
        before.addnext(new)
    else:
        new.attrib.update(old.attrib)
        new.tail = old.tail
        unit.replace(old, new)
    if is_2:
        unit.set("state", "translated")
        unit.set("subState", "interlinear:machine")
    else:
        new.set("state", "needs-review-translation")
        new.set("state-qualifier", "mt-suggestion")
    segments = [e for e in new.iter(etree.Element) if local(e) == "mrk" and e.get("mtype") == "seg"]
    yield from segments or [new]


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if local(child) == name), None)


def _name_language(root: Element, target: str) -> None:
    is_2 = (root.get("version") or "").startswith("2")
    attribute = "trgLang" if is_2 else "target-language"
    for element in [root] if is_2 else [e for e in root if local(e) == "file"]:
        if language_alone(element.get(attribute) or "") != language_alone(target):
            element.set(attribute, target)


class _Inline:
    """The content of an element as a passage, and back."""

    def __init__(self, holder: Element) -> None:
        self.holder = holder
        self.things: list[Element | None] = []
        """By number: an element, None where one closes."""
        self.collector = Collector()
        preserves = next((e.get(_SPACE) for e in [holder, *holder.iterancestors()] if e.get(_SPACE)), "")
        self.wraps = preserves != "preserve"
        self._content(holder)
        self.passage: Passage | None = self.collector.passage(clean)

    def fill(self, translation: str) -> None:
        """Replaces the content of the element by the translation's."""
        for child in list(self.holder):
            self.holder.remove(child)
        self.holder.text = None
        open_elements = [self.holder]

        def text(part: str) -> None:
            if len(open_elements[-1]):
                last = open_elements[-1][-1]
                last.tail = (last.tail or "") + part
            else:
                open_elements[-1].text = (open_elements[-1].text or "") + part

        def thing(number: int) -> None:
            element = self.things[number]
            if element is None:
                open_elements.pop()
                return
            element.tail = None
            open_elements[-1].append(element)
            if self._is_open(element):
                for child in list(element):
                    element.remove(child)
                element.text = None
                open_elements.append(element)

        resolved(translation, text, thing)

    def _content(self, element: Element) -> None:
        self._text(element.text)
        for child in element:
            self._inline(child)
            self._text(child.tail)

    def _text(self, text: str | None) -> None:
        self.collector.text(_WRAPPED.sub(" ", text or "") if self.wraps else text or "")

    def _inline(self, element: Element) -> None:
        name, raw = local(element), self._refer(element)
        if self._is_open(element):
            key = object()
            self.collector.open(raw, key)
            self._content(element)
            self.collector.close(self._refer(None), key)
        elif name == "mrk" and text_of(element):
            self.collector.keep(text_of(element), raw)
        elif name in _BEGINS:
            self.collector.open(raw, (name, element.get("rid") or element.get("id")))
        elif name in _ENDS:
            opening = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}[name]
            key = element.get("rid") or element.get("startRef") or element.get("id")
            self.collector.close(raw, (opening, key))
        else:
            self.collector.mark(raw)

    def _refer(self, thing: Element | None) -> str:
        self.things.append(thing)
        return reference(len(self.things) - 1)

    @staticmethod
    def _is_open(element: Element) -> bool:
        is_protected = element.get("mtype") == "protected" or element.get("translate") == "no"
        return local(element) in _PAIRED and not is_protected
