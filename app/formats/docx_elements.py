"""Classifies the elements of a Word paragraph: text, containers of text, values of the sentence, or none of these.

ECMA-376, part 1, chapter 17.
"""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from app.formats.xml_parts import Element, local_name
from app.markup.passage import OBJECT, VALUE

_CONTAINERS = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo"}
_FIXED_CONTROLS = {"dropDownList", "comboBox", "date", "checkbox", "picture", "docPartList"}
"""Kinds of content control that do not allow free text."""
_HIDDEN_FIELDS = {"ASK", "PRIVATE", "RD", "SET", "TA", "TC", "XE"}
"""Fields that display nothing."""
_COMPUTED = {"pgNum", *(f"{part}{length}" for part in ("day", "month", "year") for length in ("Short", "Long"))}
_OBJECTS = {"object", "oMath", "sym"}
_CHARACTERS = {"tab": "\t", "cr": "\n", "noBreakHyphen": "\u2011"}


def is_word(element: Element) -> bool:
    return "wordprocessingml" in (etree.QName(element).namespace or "")


def characters(element: Element) -> str | None:
    """The text of an element of a run."""
    name = local_name(element)
    if name == "t":
        return element.text or ""
    if name == "br":
        return "\n" if _attribute(element, "type") in {"", "textWrapping"} else None
    return _CHARACTERS.get(name)


def placeholder(element: Element) -> str:
    """The placeholder for an element that is not text: VALUE, OBJECT, or nothing."""
    name = local_name(element)
    if name == "fldSimple":
        return field_placeholder(_attribute(element, "instr"))
    if name == "sdt":
        return OBJECT if _control_properties(element) & {"checkbox", "picture"} else VALUE
    if name in _COMPUTED:
        return VALUE
    return OBJECT if name in _OBJECTS or _is_inline(element) else ""


def _is_inline(element: Element) -> bool:
    """Whether a picture is inline, and not beside the text."""
    if local_name(element) == "AlternateContent":
        choice = next((e for e in element if local_name(e) == "Choice"), ())
        return any(map(_is_inline, choice))
    if local_name(element) == "pict":
        shapes = [e for e in element if "style" in e.attrib]
        pictured = any(local_name(e) == "imagedata" for shape in shapes for e in shape)
        return pictured and not any("position:absolute" in shape.get("style", "") for shape in shapes)
    return local_name(element) == "drawing" and any(local_name(e) == "inline" for e in element)


def is_link(instruction: str) -> bool:
    """Whether a field with this instruction is a link, whose text is translated."""
    return _field_kind(instruction) == "HYPERLINK"


def field_placeholder(instruction: str) -> str:
    """The placeholder for any other field."""
    return "" if _field_kind(instruction) in _HIDDEN_FIELDS else VALUE


def _field_kind(instruction: str) -> str:
    """The first word, in upper case."""
    return (instruction.upper().split() or [""])[0]


def _attribute(element: Element, name: str) -> str:
    return next((str(value) for key, value in element.attrib.items() if etree.QName(key).localname == name), "")


def is_container(element: Element) -> bool:
    if local_name(element) == "fldSimple":
        return is_link(_attribute(element, "instr"))
    if local_name(element) not in _CONTAINERS or not is_word(element):
        return False
    if local_name(element) != "sdt":
        return True
    return any(local_name(e) == "sdtContent" for e in element) and not _control_properties(element) & _FIXED_CONTROLS


def _control_properties(element: Element) -> set[str]:
    """The properties of a content control."""
    return {local_name(e) for e in next((e for e in element if local_name(e) == "sdtPr"), ())}


def fields(elements: Sequence[Element]) -> dict[int, tuple[int | None, int]]:
    """Where fields begin, and for each its separator and end, if those are among `elements`."""
    found: dict[int, tuple[int | None, int]] = {}
    open_fields: list[list[int]] = []
    for index, element in enumerate(elements):
        if local_name(element) != "fldChar":
            continue
        kind = _attribute(element, "fldCharType")
        if kind == "begin":
            open_fields.append([index])
        elif open_fields and kind == "separate":
            open_fields[-1].append(index)
        elif open_fields and kind == "end":
            start, *separators = open_fields.pop()
            found[start] = (separators[0] if separators else None, index)
    return found
