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

from app.formats.document import Content, TextLocation, UnreadableDocument, bounded_list
from app.formats.inline_content import InlineContent
from app.formats.xml_edits import XmlEdits, XmlText
from app.formats.xml_parts import Element, clean, local_name, parse_xml, text_of
from app.markup.passage import OBJECT, VALUE, Passage
from app.markup.render import render_source
from app.text.mnemonics import Mnemonic, mnemonic_marks, remove_mnemonic
from app.text.word_units import is_spaced
from model.languages import language_alone

_UNTRANSLATED_STATES = {"new", "needs-translation", "initial"}
_PAIRED = {"g", "pc", "mrk"}
_OPENING_CODES = {"bpt": "bpt", "bx": "bx", "sc": "sc", "sm": "sm"}
_CLOSING_CODES = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}
_UNPAIRED_CODES = {*_OPENING_CODES, *_CLOSING_CODES, "it"} - {"sm", "em"}
"""Codes whose other half is elsewhere, if it is not beside them."""
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_STANDALONE = {"x", "ph"}
_CODE = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>")
"""Begins or ends an element in the original format."""
_BREAK = re.compile(r"(?:<(?:w?br|hr|\w+:br)\b[^<>]*>|\\[rnt]|[\r\n\t])+", re.IGNORECASE)
_BREAK_TYPE = re.compile(r"(?:.*[:-])?(?:lb|pb|w?br|hr)", re.IGNORECASE)
_WRAPPED = re.compile(r"(?<![ \t])[ \t]*+[\r\n]\s*")


def read(content: bytes, target: str = "") -> Content:
    """`target` is the language that the file will declare as its target. Raises UnreadableDocument."""
    original = parse_xml(content, "The XLIFF file")
    text = XmlText(content, original.getroottree().docinfo.encoding or "UTF-8")
    targets = bounded_list(_insert_targets(original))
    marks = mnemonic_marks(map(text_of, targets))
    inlines = [_InlineContent(target_element, marks) for target_element in targets]
    passages = [inline.passage for inline in inlines]
    chosen = [number for number, passage in enumerate(passages) if passage]

    def write(translations: Sequence[str]) -> bytes:
        root = parse_xml(content, "The XLIFF file")
        edits = XmlEdits(text, root)
        before = [(unit, _child(unit, "target")) for unit in _units(root)]
        by_number = dict(zip(chosen, translations, strict=True))
        for number, target_element in enumerate(list(_insert_targets(root))):
            inline = _InlineContent(target_element, marks)
            if number in by_number and inline.passage and by_number[number] != render_source(inline.passage):
                translation = by_number[number]
                inline.fill(inline.mnemonic.insert_into(translation, target) if inline.mnemonic else translation)
        for unit, old in before:
            _write_target(edits, unit, old)
        if target:
            _write_target_language(edits, root, target)
        return edits.apply()

    return Content(
        [passage for passage in passages if passage],
        write,
        [_location(inline.element) for inline in inlines if inline.passage],
    )


def _insert_targets(root: Element) -> Iterator[Element]:
    """Inserts the new targets, and returns the elements that hold a passage, each with its source's content."""
    if local_name(root) != "xliff":
        raise UnreadableDocument(f"The file is not XLIFF: its root is {clean(local_name(root))}.")
    is_2 = _is_version_2(root)
    for unit in _units(root):
        source = _child(unit, "source")
        if source is None or not _needs_translation(unit, source, is_2):
            continue
        yield from _new_target(unit, source, is_2)


def _is_version_2(root: Element) -> bool:
    return (root.get("version") or "").startswith("2")


def _units(root: Element) -> list[Element]:
    """The elements with a source and a target."""
    name = "segment" if _is_version_2(root) else "trans-unit"
    return [element for element in root.iter(etree.Element) if local_name(element) == name]


def _needs_translation(unit: Element, source: Element, is_2: bool) -> bool:
    if any(e.tag == unit.tag for e in unit.iterancestors()):  # not valid XLIFF, and would be copied with each unit
        return False
    translate = next((e.get("translate") for e in [unit, *unit.iterancestors()] if e.get("translate")), "yes")
    if translate == "no" or unit.get("approved") == "yes" or not any(map(str.isalpha, text_of(source))):
        return False
    target = _child(unit, "target")
    if target is None or not text_of(target).strip():
        return True
    return (unit if is_2 else target).get("state") in _UNTRANSLATED_STATES


def _new_target(unit: Element, source: Element, is_2: bool) -> Iterator[Element]:
    content = _target_model(unit, source)
    old = _child(unit, "target")
    new = copy.deepcopy(content)
    new.tag = etree.QName(etree.QName(source).namespace, "target").text
    for name in list(new.attrib):
        if name != _SPACE:
            del new.attrib[name]
    if old is None:
        new.tail, content.tail = content.tail, content.tail
        content.addnext(new)
    else:
        new.attrib.update(old.attrib)
        new.tail = old.tail
        unit.replace(old, new)
    if not is_2:
        new.set("state", "needs-review-translation")
        new.set("state-qualifier", "mt-suggestion")
    segments = [e for e in new.iter(etree.Element) if local_name(e) == "mrk" and e.get("mtype") == "seg"]
    yield from segments or [new]


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if local_name(child) == name), None)


def _target_model(unit: Element, source: Element) -> Element:
    """The element that a new target is a copy of, and comes after."""
    seg_source = _child(unit, "seg-source")
    return source if seg_source is None else seg_source


def _write_target(edits: XmlEdits, unit: Element, old: Element | None) -> None:
    """Writes a unit's target if it is not the `old` one."""
    source, new = _child(unit, "source"), _child(unit, "target")
    if source is None or new is None or new is old:
        return
    if old is None:
        edits.insert_after(_target_model(unit, source), new)
    else:
        edits.replace(old, new)
    if local_name(unit) == "segment":
        edits.set_attributes(unit, {"state": "translated", "subState": "interlinear:machine"})


def _write_target_language(edits: XmlEdits, root: Element, target: str) -> None:
    is_2 = _is_version_2(root)
    attribute = "trgLang" if is_2 else "target-language"
    for element in [root] if is_2 else [e for e in root if local_name(e) == "file"]:
        if language_alone(element.get(attribute) or "") != language_alone(target):
            edits.set_attributes(element, {attribute: target})


def _location(target_element: Element) -> TextLocation:
    """The location of its unit: line and identifier."""
    unit = next((e for e in target_element.iterancestors() if local_name(e) in ("unit", "trans-unit")), target_element)
    return TextLocation(cast("int | None", unit.sourceline), f"unit {unit.get('id')}" if unit.get("id") else "")


class _InlineContent(InlineContent):
    """The content of a source, in what will be its target."""

    def __init__(self, target_element: Element, marks: frozenset[str]) -> None:
        super().__init__(target_element)
        preserves = next(
            (e.get(_SPACE) for e in [target_element, *target_element.iterancestors()] if e.get(_SPACE)), ""
        )
        self.wraps = preserves != "preserve"
        self.pairs = _pairs(target_element)
        self.collect(target_element)
        self.passage: Passage | None = self.builder.build_translatable(clean)
        self.mnemonic: Mnemonic | None = None
        if self.passage and not self.elements and (label := remove_mnemonic(self.passage.text, marks)):
            text, self.mnemonic = label
            self.passage = Passage(text, write=clean)

    def add_text(self, text: str) -> None:
        self.builder.add_text(_WRAPPED.sub(" ", text) if self.wraps else text)

    def add_child(self, element: Element) -> None:
        name = local_name(element)
        if self.is_open(element):
            self.add_open(element)
            return
        raw = self.refer(element)
        if name == "mrk" and text_of(element):
            self.builder.add_protected(text_of(element), raw)
        elif element in self.pairs:
            is_opening, key = self.pairs[element]
            (self.builder.open_tag if is_opening else self.builder.close_tag)(raw, key)
        elif name in _STANDALONE and not _is_break(element):
            self.builder.add_protected(VALUE, raw)
        elif name in _UNPAIRED_CODES:
            self.builder.add_protected(OBJECT, raw)
        elif self.separates_words(element):
            self.builder.add_mark(raw, space=True)
            self.builder.add_text(" ")
        else:
            self.builder.add_mark(raw)

    @staticmethod
    def separates_words(element: Element) -> bool:
        """Whether a code is a break with text and no white space on either side."""
        before, parent = element.getprevious(), element.getparent()
        preceding = (before.tail if before is not None else parent.text if parent is not None else "") or " "
        following = element.tail or " "
        is_joined = not (preceding[-1].isspace() or following[0].isspace())
        is_spaced_script = is_spaced(preceding[-1]) and is_spaced(following[0])
        return is_joined and is_spaced_script and _is_break(element) and not _is_break_point(element)

    @staticmethod
    def is_open(element: Element) -> bool:
        is_protected = element.get("mtype") == "protected" or element.get("translate") == "no"
        return local_name(element) in _PAIRED and not is_protected


def _pairs(target_element: Element) -> dict[Element, tuple[bool, object]]:
    """For each code whose other half is in `target_element` too: whether it opens, and the key of both halves."""
    pairs: dict[Element, tuple[bool, object]] = {}
    open_codes: dict[tuple[str, str], list[Element]] = {}
    for element in target_element.iter(etree.Element):
        is_opening, key = _half(element)
        if is_opening:
            open_codes.setdefault(key, []).append(element)
        elif open_codes.get(key):
            common = object()
            pairs[open_codes[key].pop()], pairs[element] = (True, common), (False, common)
    return pairs


def _half(element: Element) -> tuple[bool, tuple[str, str]]:
    """Whether a code opens something, and its key: its number, or the tag that it represents."""
    name = local_name(element)
    number = element.get("rid") or element.get("startRef") or element.get("id") or ""
    if name in _OPENING_CODES or name in _CLOSING_CODES:
        return name in _OPENING_CODES, (_OPENING_CODES.get(name) or _CLOSING_CODES[name], number)
    code = _CODE.fullmatch(_code(element)) if name in _STANDALONE else None
    return (not code[1], ("<", code[2])) if code else (False, ("", ""))


def _code(element: Element) -> str:
    """The original format's code, as far as the XLIFF contains it."""
    text = element.get("equiv-text") or element.get("disp") or element.get("equiv") or text_of(element)
    return text.strip(" ")


def _is_break_point(element: Element) -> bool:
    """Whether a code is where a word may be broken."""
    types = [element.get("ctype") or "", element.get("subType") or "", _code(element)]
    return any(re.search("wbr", one, re.IGNORECASE) for one in types)


def _is_break(element: Element) -> bool:
    """Whether a code is a line or page break."""
    types = filter(None, map(element.get, ("ctype", "subType")))
    return any(map(_BREAK_TYPE.fullmatch, types)) or _BREAK.fullmatch(_code(element)) is not None
