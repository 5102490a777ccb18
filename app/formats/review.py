"""A translated document for review: each unit with its translation, as XLIFF 1.2, and back into the document.

In both, codes stand for tags and protected parts, `bx` and `ex` around words and `x` alone: whatever the format, a
reviewer moves them but cannot break them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lxml import etree

from app.formats.document import UnreadableDocument, check_depth
from app.formats.units import Code, Reviewed, Unit, reference, split_codes
from app.formats.xml_parts import (
    Element,
    append_text,
    clean,
    is_free_of_references,
    local_name,
    parse_xml,
    text_of,
)

NAMESPACE = "urn:oasis:names:tc:xliff:document:1.2"
_NAMES = {"open": "bx", "close": "ex", "mark": "x"}
"""Of the elements for codes, by kind."""
_TRANSPARENT = ("mrk",)
"""What translation tools put around segments and terms."""


def write_xliff(
    name: str, languages: tuple[str, str], units: Sequence[Unit], reviewed: Sequence[Reviewed], tool: str
) -> bytes:
    """The review as XLIFF, in the document's order. `name`: of the document; `tool`: the model."""
    root = etree.Element(f"{{{NAMESPACE}}}xliff", {"version": "1.2"}, nsmap={None: NAMESPACE})  # type: ignore[dict-item]
    source, target = languages
    attributes = {"original": clean(name), "datatype": "plaintext"}
    file = _add(root, "file", **attributes, **{"source-language": source, "target-language": target})
    _add(_add(file, "header"), "note", tool)
    body = _add(file, "body")
    segments = list[tuple[Element, str, Sequence[Code]]]()
    for number, (unit, found) in enumerate(zip(units, reviewed, strict=True), 1):
        element = _add(body, "trans-unit", id=str(number))
        element.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
        segments.append((_add(element, "source"), unit.source.strip(), unit.codes))
        states = {"state": "needs-review-translation", "state-qualifier": "mt-suggestion"}
        segments.append((_add(element, "target", **states), found.target.strip(), unit.codes))
        _add_note(element, "location", str(unit.location))
        if found.quality is not None:
            _add_note(element, "quality", f"{found.quality:.2f}")
        for warning in found.warnings:
            _add_note(element, "warning", warning)
    etree.indent(root)  # before there are codes, which it would indent, too
    for segment in segments:
        _fill(*segment)
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True)) + b"\n"


def _add(parent: Element, name: str, text: str | None = None, **attributes: str) -> Element:
    element = etree.SubElement(parent, f"{{{NAMESPACE}}}{name}", attributes)
    element.text = None if text is None else clean(text)
    return element


def _add_note(unit: Element, subject: str, text: str) -> None:
    if text:
        _add(unit, "note", text, **{"from": subject})


def _fill(element: Element, text: str, codes: Sequence[Code]) -> None:
    """Sets the content of an empty element."""
    for part in split_codes(text, codes):
        if isinstance(part, str):
            append_text(element, clean(part))
            continue
        code = codes[part]
        child = _add(element, _NAMES[code.kind], id=str(part + 1))
        if code.kind != "mark":
            child.set("rid", str(code.pair + 1))
        if shown := clean(code.text or code.raw):
            child.set("equiv-text", shown)


def read_xliff(content: bytes, units: Sequence[Unit]) -> list[str]:
    """The targets of a review that `write_xliff` wrote and somebody changed, one for each of the document's units.

    Raises UnreadableDocument, which names the unit: for one that is missing, repeated or of another document, and for
    codes that are missing, too many, unknown or spelled otherwise.
    """
    root = parse_xml(content, "The review")
    found = list(root.iter(f"{{{NAMESPACE}}}trans-unit"))
    by_id = {element.get("id"): element for element in found}
    if len(by_id) < len(found):
        repeated, _ = Counter(element.get("id") for element in found).most_common(1)[0]
        raise UnreadableDocument(f"The review has several units with the id {_quoted(repeated)}.")
    targets = []
    for number, unit in enumerate(units, 1):
        what = f"Unit {number} of the review"
        element = by_id.get(str(number))
        if element is None:
            raise UnreadableDocument(f"{what} is missing.")
        source, target = (element.find(f"{{{NAMESPACE}}}{name}") for name in ("source", "target"))
        shown = _cleaned(unit.source, unit).strip()
        if source is None or _text(source, unit, what) != shown:
            raise UnreadableDocument(f"{what} is of another document: its source is not the document's.")
        if target is None or not (text_of(target).strip() or len(target)):
            raise UnreadableDocument(f"{what} has no target.")
        text = _text(target, unit, what)
        _check_codes(text, unit, what)
        # What is unchanged keeps what XML cannot contain.
        targets.append(unit.source if text.strip() == shown else _between_blanks_of(unit.source, text))
    if len(by_id) > len(units):
        raise UnreadableDocument(f"The review has {len(by_id)} units, and the document {len(units)} texts.")
    return targets


def _between_blanks_of(source: str, target: str) -> str:
    """`target` with the white space around `source`, which a review leaves out: tools and people lose it."""
    text = source.strip()
    before, _, after = source.partition(text) if text else (source, "", "")
    return f"{before}{target.strip()}{after}"


def _cleaned(text: str, unit: Unit) -> str:
    """A unit's text with references to its codes, without what XML cannot contain."""
    return "".join(clean(part) if isinstance(part, str) else reference(part) for part in split_codes(text, unit.codes))


def _text(element: Element, unit: Unit, what: str) -> str:
    """The content of a source or target, with references to its codes."""
    parts = list[str]()

    def add(element: Element, depth: int) -> None:
        check_depth(depth, what)
        parts.append(_own_text(element.text, what))
        for child in element:
            name = local_name(child)
            if name in _TRANSPARENT:
                add(child, depth + 1)
            elif name in _NAMES.values():
                parts.append(reference(_number(child, unit, what)))
            elif name:
                raise UnreadableDocument(f"{what} has an element {clean(name)[:40]}, which the review did not have.")
            parts.append(_own_text(child.tail, what))

    add(element, 1)
    return "".join(parts)


def _own_text(text: str | None, what: str) -> str:
    """The text, which must have no reference of its own: only an element is a code."""
    if text and not is_free_of_references(text):
        raise UnreadableDocument(f"{what} has a noncharacter (U+FDD0, U+FDD1), which no translation has.")
    return text or ""


def _number(code: Element, unit: Unit, what: str) -> int:
    found = code.get("id") or ""
    if not (found.isascii() and found.isdecimal() and len(found) < 10 and 0 < int(found) <= len(unit.codes)):
        raise UnreadableDocument(f"{what} has an unknown code, {clean(local_name(code))} id={_quoted(found)}.")
    return int(found) - 1


def _quoted(text: str | None) -> str:
    return repr((text or "")[:20])


def _check_codes(text: str, unit: Unit, what: str) -> None:
    numbers = [part for part in split_codes(text, unit.codes) if isinstance(part, int)]
    counted = Counter(numbers)
    for number in range(len(unit.codes)):
        if counted[number] != 1:
            wrong = "lacks" if not counted[number] else "repeats"
            raise UnreadableDocument(f"{what} {wrong} the code id={number + 1}: each has to be there once.")
    open_codes = set[int]()
    for number in numbers:
        code = unit.codes[number]
        if code.kind == "open":
            open_codes.add(number)
        elif code.kind == "close" and code.pair not in open_codes and code.pair != number:
            raise UnreadableDocument(f"{what} closes the code id={code.pair + 1} before it opens it.")
