"""XLIFF 1.x and 2.x: fills in missing targets, marked as machine translated.

Paired codes are tags. A standalone code is a value in its sentence, unless it is a line break. Skips units with
translate="no" or approved, and targets with text, unless their state says that they need translation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

from app.formats.catalogue_strings import Value, catalogue_content, written
from app.formats.document import Content
from app.formats.passage_builder import PassageBuilder
from app.formats.xml_positions import XmlNode, escape, parse, plain_text, with_attributes
from app.markup.passage import OBJECT, VALUE, Piece
from app.text.word_units import is_spaced
from model.languages import language_alone

_UNTRANSLATED_STATES = {"new", "needs-translation", "initial"}
_IN_1 = {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"}
_IN_2 = {"state": "translated", "subState": "interlinear:machine"}
"""Attributes that mark a target, or in XLIFF 2 its segment, as machine translated."""
_PAIRED = {"g", "pc", "mrk", "hi"}
_OPENING_CODES = {"bpt": "bpt", "bx": "bx", "sc": "sc", "sm": "sm"}
_CLOSING_CODES = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}
_UNPAIRED_CODES = {*_OPENING_CODES, *_CLOSING_CODES, "it"} - {"sm", "em"}
"""Codes whose other half is elsewhere, if it is not beside them."""
_STANDALONE = {"x", "ph", "ut"}
_CODE = re.compile(r"<(/?)([A-Za-z][\w:.-]*)(?:\s[^<>]*)?(?<!/)>")
"""Begins or ends an element in the original format."""
_BREAK = re.compile(r"(?:<(?:w?br|hr|\w+:br)\b[^<>]*>|\\[rnt]|[\r\n\t])+", re.IGNORECASE)
_BREAK_TYPE = re.compile(r"(?:.*[:-])?(?:lb|pb|w?br|hr)", re.IGNORECASE)
_WRAPPED = re.compile(r"(?<![ \t])[ \t]*+[\r\n]\s*")
Pairs = Mapping[XmlNode, tuple[bool, object]]


def read(content: bytes, target: str = "") -> Content:
    """`target` is the language that the file will declare as its target. Raises UnreadableDocument."""
    text, encode, root = parse(content, "XLIFF", "xliff")
    return catalogue_content(text, [*_language(text, root, target), *_values(text, root)], target, encode)


def _is_version_2(root: XmlNode) -> bool:
    return root.attributes.get("version", "").startswith("2")


def _language(text: str, root: XmlNode, target: str) -> Iterator[Value]:
    is_2 = _is_version_2(root)
    attribute = "trgLang" if is_2 else "target-language"
    for node in [root] if is_2 else [child for child in root.children if child.local_name == "file"]:
        if target and language_alone(node.attributes.get(attribute, "")) != language_alone(target):
            yield _marked(text, node, {attribute: target})


def _marked(text: str, node: XmlNode, attributes: Mapping[str, str]) -> Value:
    """The value that sets attributes of an element."""
    tag = with_attributes(text[node.start : node.content], attributes)
    return Value(node.start, node.content, "", str, adds=True, pieces=[tag])


def _values(text: str, root: XmlNode) -> Iterator[Value]:
    is_2 = _is_version_2(root)
    for unit in root.descendants("segment" if is_2 else "trans-unit"):
        source, old = unit.find("source"), unit.find("target")
        if source is None or not _needs_translation(text, unit, source, old, is_2):
            continue
        if is_2:
            yield _marked(text, unit, _IN_2)
        model = unit.find("seg-source") or source
        name = model.name.removesuffix(model.local_name) + "target"
        kept = {key: value for key, value in model.attributes.items() if key.startswith("xmlns") or key == "xml:space"}
        attributes = kept | ({} if is_2 else _IN_1)
        if old:
            start, end, gap = old.start, old.end, ""
            tag = text[old.start : old.content].removesuffix("/>").removesuffix(">") + ">"
        else:
            start = end = text.index("<", model.end)
            tag, gap = f"<{name}>", text[model.end : start]
        around = with_attributes(tag, attributes), f"</{name}>{gap}"
        if model.children:
            pieces = list(_pieces(text, model))
            yield Value(start, end, "", partial(written, *around, str), _name(unit), True, pieces)
        else:
            shown = _shown(text[model.content : model.content_end], model)
            yield Value(start, end, shown, partial(written, *around, escape), _name(unit), True)


def _needs_translation(text: str, unit: XmlNode, source: XmlNode, old: XmlNode | None, is_2: bool) -> bool:
    if _inherited(unit, "translate") == "no" or unit.attributes.get("approved") == "yes":
        return False
    if not any(map(str.isalpha, _text_of(text, source))):
        return False
    if old is None or not _text_of(text, old).strip():
        return True
    return (unit if is_2 else old).attributes.get("state") in _UNTRANSLATED_STATES


def _inherited(node: XmlNode | None, attribute: str) -> str:
    while node and not node.attributes.get(attribute):
        node = node.parent
    return node.attributes[attribute] if node else ""


def _name(node: XmlNode | None) -> str:
    """Of a unit, for display."""
    while node and node.local_name not in ("unit", "trans-unit"):
        node = node.parent
    return f"unit {node.attributes['id']}" if node and node.attributes.get("id") else ""


def _text_of(text: str, node: XmlNode) -> str:
    """Its whole text, without tags."""
    parts, done = list[str](), node.content
    for child in node.children:
        parts += [plain_text(text[done : child.start]), _text_of(text, child)]
        done = child.end
    return "".join([*parts, plain_text(text[done : node.content_end])])


def _pieces(text: str, model: XmlNode) -> Iterator[Piece]:
    """The content of a source, each of its segments as a passage."""
    segments = [node for node in model.walk() if node.local_name == "mrk" and node.attributes.get("mtype") == "seg"]
    done = model.content
    for segment in segments or [model]:
        if segment.content < done:  # in another one
            continue
        yield text[done : segment.content]
        yield inline_piece(text, segment)
        done = segment.content_end
    yield text[done : model.content_end]


def inline_piece(text: str, node: XmlNode) -> Piece:
    """The content of an element, of XLIFF or TMX, as a passage; as it is, if it has no words."""
    builder = PassageBuilder()
    _add(builder, text, node, _pairs(text, node))
    return builder.build_translatable(escape) or text[node.content : node.content_end]


def _add(builder: PassageBuilder, text: str, node: XmlNode, pairs: Pairs) -> None:
    first, *ends = [*(child.start for child in node.children), node.content_end]
    before = _shown(text[node.content : first], node)
    builder.add_text(before)
    for child, end in zip(node.children, ends, strict=True):
        after = _shown(text[child.end : end], node)
        raw, name = text[child.start : child.end], child.local_name
        if name in _PAIRED and not _is_protected(child) and not child.is_empty_tag:
            builder.open_tag(text[child.start : child.content], child)
            _add(builder, text, child, pairs)
            builder.close_tag(text[child.content_end : child.end], child)
        elif name == "mrk" and (shown := _text_of(text, child)):
            builder.add_protected(shown, raw)
        elif child in pairs:
            is_opening, key = pairs[child]
            (builder.open_tag if is_opening else builder.close_tag)(raw, key)
        elif name in _STANDALONE and not _is_break(text, child):
            builder.add_protected(VALUE, raw)
        elif name in _UNPAIRED_CODES:
            builder.add_protected(OBJECT, raw)
        elif _is_break(text, child) and _separates_words(before, after) and not _is_break_point(text, child):
            builder.add_mark(raw, space=True)
            builder.add_text(" ")
        else:
            builder.add_mark(raw)
        builder.add_text(after)
        before = after


def _shown(raw: str, node: XmlNode) -> str:
    """The text of characters in an element; line breaks are layout, unless it preserves them."""
    shown = plain_text(raw)
    return shown if _inherited(node, "xml:space") == "preserve" else _WRAPPED.sub(" ", shown)


def _is_protected(node: XmlNode) -> bool:
    return node.attributes.get("mtype") == "protected" or node.attributes.get("translate") == "no"


def _separates_words(before: str, after: str) -> bool:
    """Whether a break between these texts has no white space on either side."""
    beside = f"{before[-1:] or ' '}{after[:1] or ' '}"
    return all(not one.isspace() and is_spaced(one) for one in beside)


def _pairs(text: str, segment: XmlNode) -> Pairs:
    """For each code whose other half is in `segment` too: whether it opens, and the key of both halves."""
    pairs: dict[XmlNode, tuple[bool, object]] = {}
    open_codes: dict[tuple[str, str], list[XmlNode]] = {}
    for node in segment.walk():
        is_opening, key = _half(text, node)
        if is_opening:
            open_codes.setdefault(key, []).append(node)
        elif open_codes.get(key):
            common = object()
            pairs[open_codes[key].pop()], pairs[node] = (True, common), (False, common)
    return pairs


def _half(text: str, node: XmlNode) -> tuple[bool, tuple[str, str]]:
    """Whether a code opens something, and its key: its number, or the tag that it represents."""
    name, given = node.local_name, node.attributes
    number = next(filter(None, map(given.get, ("rid", "startRef", "id", "i"))), "")
    if name in _OPENING_CODES or name in _CLOSING_CODES:
        return name in _OPENING_CODES, (_OPENING_CODES.get(name) or _CLOSING_CODES[name], number)
    code = _CODE.fullmatch(_code(text, node)) if name in _STANDALONE else None
    return (not code[1], ("<", code[2])) if code else (False, ("", ""))


def _code(text: str, node: XmlNode) -> str:
    """The original format's code, as far as the XLIFF contains it."""
    given = node.attributes
    code = given.get("equiv-text") or given.get("disp") or given.get("equiv") or _text_of(text, node)
    return code.strip(" ")


def _types(node: XmlNode) -> list[str]:
    return [node.attributes.get("ctype", ""), node.attributes.get("subType", "")]


def _is_break_point(text: str, node: XmlNode) -> bool:
    """Whether a code is where a word may be broken."""
    return any(re.search("wbr", one, re.IGNORECASE) for one in [*_types(node), _code(text, node)])


def _is_break(text: str, node: XmlNode) -> bool:
    """Whether a code is a line or page break."""
    return any(map(_BREAK_TYPE.fullmatch, _types(node))) or _BREAK.fullmatch(_code(text, node)) is not None
