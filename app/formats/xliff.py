"""XLIFF 1.x and 2.x: fills in missing targets, marked as machine translated.

Paired codes are tags. A standalone code is a value in its sentence, unless it is a line break. Skips units with
translate="no" or approved, and targets with text, unless their state says that they need translation.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import cast

from lxml import etree

from app.formats.document import Content, TextLocation, UnreadableDocument, few
from app.formats.passage_builder import Collector
from app.formats.xml_parts import Element, clean, local, parsed, reference, resolved, text_of, written
from app.markup.passage import OBJECT, VALUE, Passage
from app.markup.render import unchanged
from app.text.mnemonics import Mnemonic, marks_in, without
from model.languages import language_alone

_TO_DO = {"new", "needs-translation", "initial"}
_PAIRED = {"g", "pc", "mrk"}
_BEGINS = {"bpt": "bpt", "bx": "bx", "sc": "sc", "sm": "sm"}
_ENDS = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}
_HALVES = {*_BEGINS, *_ENDS, "it"} - {"sm", "em"}
"""Codes whose other half is elsewhere, if it is not beside them."""
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_ALONE = {"x", "ph"}
_CODE = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>")
"""Begins or ends an element in the original format."""
_BREAK = re.compile(r"(?:<(?:w?br|hr|\w+:br)\b[^<>]*>|\\[rnt]|[\r\n\t])+", re.IGNORECASE)
_BREAK_TYPE = re.compile(r"(?:.*[:-])?(?:lb|pb|w?br|hr)", re.IGNORECASE)
_WRAPPED = re.compile(r"[ \t]*[\r\n]\s*")


def read(content: bytes, target: str = "") -> Content:
    """`target` is the language that the file will declare as its target. Raises UnreadableDocument."""
    holders = few(_holders(parsed(content, "The XLIFF file")))
    marks = marks_in(map(text_of, holders))
    found = [_Inline(holder, marks) for holder in holders]
    passages = [inline.passage for inline in found]
    chosen = [number for number, passage in enumerate(passages) if passage]

    def write(translations: Sequence[str]) -> bytes:
        root = parsed(content, "The XLIFF file")
        by_number = dict(zip(chosen, translations, strict=True))
        for number, holder in enumerate(list(_holders(root))):
            inline = _Inline(holder, marks)
            if number in by_number and inline.passage and by_number[number] != unchanged(inline.passage):
                translation = by_number[number]
                inline.fill(inline.mnemonic.put(translation, target) if inline.mnemonic else translation)
        if target:
            _name_language(root, target)
        return written(root)

    return Content(
        [passage for passage in passages if passage],
        write,
        [_location(inline.holder) for inline in found if inline.passage],
    )


def _holders(root: Element) -> Iterator[Element]:
    """Inserts the new targets, and returns the elements that hold a passage, each with its source's content."""
    if local(root) != "xliff":
        raise UnreadableDocument(f"The file is not XLIFF: its root is {clean(local(root))}.")
    is_2 = (root.get("version") or "").startswith("2")
    for unit in [e for e in root.iter(etree.Element) if local(e) == ("segment" if is_2 else "trans-unit")]:
        source = _child(unit, "source")
        if source is None or not _is_to_do(unit, source, is_2):
            continue
        yield from _new_target(unit, source, is_2)


def _is_to_do(unit: Element, source: Element, is_2: bool) -> bool:
    if any(e.tag == unit.tag for e in unit.iterancestors()):  # not valid XLIFF, and would be copied with each unit
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


def _location(holder: Element) -> TextLocation:
    """The location of its unit: line and identifier."""
    unit = next((e for e in holder.iterancestors() if local(e) in ("unit", "trans-unit")), holder)
    return TextLocation(cast("int | None", unit.sourceline), f"unit {unit.get('id')}" if unit.get("id") else "")


class _Inline:
    """Converts the content of an element to a passage and back."""

    def __init__(self, holder: Element, marks: frozenset[str]) -> None:
        self.holder = holder
        self.things: list[Element | None] = []
        """By number: an element, or None where one closes."""
        self.collector = Collector()
        preserves = next((e.get(_SPACE) for e in [holder, *holder.iterancestors()] if e.get(_SPACE)), "")
        self.wraps = preserves != "preserve"
        self.pairs = _pairs(holder)
        self._content(holder)
        self.passage: Passage | None = self.collector.passage(clean)
        self.mnemonic: Mnemonic | None = None
        if self.passage and not self.things and (label := without(self.passage.text, marks)):
            shown, self.mnemonic = label
            self.passage = Passage(shown, write=clean)

    def fill(self, translation: str) -> None:
        """Replaces the element's content by the translation's."""
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
        elif element in self.pairs:
            begins, key = self.pairs[element]
            (self.collector.open if begins else self.collector.close)(raw, key)
        elif name in _ALONE and not _is_break(element):
            self.collector.keep(VALUE, raw)
        elif name in _HALVES:
            self.collector.keep(OBJECT, raw)
        else:
            self.collector.mark(raw)

    def _refer(self, thing: Element | None) -> str:
        self.things.append(thing)
        return reference(len(self.things) - 1)

    @staticmethod
    def _is_open(element: Element) -> bool:
        is_protected = element.get("mtype") == "protected" or element.get("translate") == "no"
        return local(element) in _PAIRED and not is_protected


def _pairs(holder: Element) -> dict[Element, tuple[bool, object]]:
    """For each code whose other half is in `holder` too: whether it opens, and the key that both halves share."""
    found: dict[Element, tuple[bool, object]] = {}
    waiting: dict[tuple[str, str], list[Element]] = {}
    for element in holder.iter(etree.Element):
        begins, key = _half(element)
        if begins:
            waiting.setdefault(key, []).append(element)
        elif waiting.get(key):
            common = object()
            found[waiting[key].pop()], found[element] = (True, common), (False, common)
    return found


def _half(element: Element) -> tuple[bool, tuple[str, str]]:
    """Whether a code opens something, and its key: its number, or the tag that it represents."""
    name = local(element)
    number = element.get("rid") or element.get("startRef") or element.get("id") or ""
    if name in _BEGINS or name in _ENDS:
        return name in _BEGINS, (_BEGINS.get(name) or _ENDS[name], number)
    code = _CODE.fullmatch(_code(element)) if name in _ALONE else None
    return (not code[1], ("<", code[2])) if code else (False, ("", ""))


def _code(element: Element) -> str:
    """The original format's code, as far as the XLIFF contains it."""
    said = element.get("equiv-text") or element.get("disp") or element.get("equiv") or text_of(element)
    return said.strip(" ")


def _is_break(element: Element) -> bool:
    """Whether a code is a line or page break."""
    types = filter(None, map(element.get, ("ctype", "subType")))
    return any(map(_BREAK_TYPE.fullmatch, types)) or _BREAK.fullmatch(_code(element)) is not None
