"""A translated document for review: each unit with its translation, as XLIFF 1.2, and back into the document.

In both, codes stand for tags and protected parts, `bx` and `ex` around words and `x` alone: whatever the format, a
reviewer moves them but cannot break them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lxml import etree

from app.formats.document import UnreadableDocument
from app.formats.units import Code, Reviewed, Unit, reference, split_codes
from app.formats.xml_parts import Element, append_text, clean, local_name, parse_xml, text_of

NAMESPACE = "urn:oasis:names:tc:xliff:document:1.2"
_NAMES = {"open": "bx", "close": "ex", "mark": "x"}
"""Of the elements for codes, by kind."""
_TRANSPARENT = ("mrk",)
"""What translation tools put around segments and terms."""


# ---- XLIFF


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

    def add_code(number: int) -> None:
        code = codes[number]
        child = _add(element, _NAMES[code.kind], id=str(number + 1))
        if code.kind != "mark":
            child.set("rid", str(code.pair + 1))
        if shown := clean(code.text or code.raw):
            child.set("equiv-text", shown)

    split_codes(text, codes, lambda part: append_text(element, clean(part)), add_code)


def read_xliff(content: bytes, units: Sequence[Unit]) -> list[str]:
    """The targets of a review that `write_xliff` wrote and somebody changed, one for each of the document's units.

    Raises UnreadableDocument, which names the unit: for one that is missing or of another document, and for codes that
    are missing, too many or unknown.
    """
    root = parse_xml(content, "The review")
    by_id = {element.get("id"): element for element in root.iter(f"{{{NAMESPACE}}}trans-unit")}
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
    parts = list[str]()

    def add_code(number: int) -> None:
        parts.append(reference(number))

    split_codes(text, unit.codes, lambda part: parts.append(clean(part)), add_code)
    return "".join(parts)


def _text(element: Element, unit: Unit, what: str) -> str:
    """The content of a source or target, with references to its codes, and none that was written as text."""
    parts = [clean(element.text or "")]
    for child in element:
        name = local_name(child)
        if name in _TRANSPARENT:
            parts.append(_text(child, unit, what))
        elif name in _NAMES.values():
            parts.append(reference(_number(child, unit, what)))
        elif name:
            raise UnreadableDocument(f"{what} has an element {clean(name)}, which the review did not have.")
        parts.append(clean(child.tail or ""))
    return "".join(parts)


def _number(code: Element, unit: Unit, what: str) -> int:
    found = code.get("id") or ""
    if not (found.isascii() and found.isdecimal() and 0 < int(found[:9]) <= len(unit.codes)):
        raise UnreadableDocument(f"{what} has an unknown code, {clean(local_name(code))} id={found[:20]!r}.")
    return int(found) - 1


def _check_codes(text: str, unit: Unit, what: str) -> None:
    counted = Counter[int]()
    split_codes(text, unit.codes, lambda _: None, lambda number: counted.update([number]))
    for number in range(len(unit.codes)):
        if counted[number] != 1:
            wrong = "lacks" if not counted[number] else "repeats"
            raise UnreadableDocument(f"{what} {wrong} the code id={number + 1}: each has to be there once.")
    open_codes = set[int]()

    def enter(number: int) -> None:
        code = unit.codes[number]
        if code.kind == "open":
            open_codes.add(number)
        elif code.kind == "close" and code.pair not in open_codes and code.pair != number:
            raise UnreadableDocument(f"{what} closes the code id={code.pair + 1} before it opens it.")

    split_codes(text, unit.codes, lambda _: None, enter)
