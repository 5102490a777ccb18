"""Translation memories, .tmx, as documents: adds the target's variant to units that have none.

Pairs of codes go around their words, other codes are values of their sentence. What is there is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from app.formats.catalogue_strings import Value, catalogue_content, written
from app.formats.document import Content, UnreadableDocument
from app.formats.xliff import inline_piece
from app.formats.xml_positions import XmlNode, clean, parse
from model.languages import AUTO, language_alone

_ALL = "*all*"
_AUTHOR = "Interlinear"


def read(content: bytes, target: str = "", source: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language of the new variants; `source`: of those to translate, if it is
    not the file's own."""
    text, encode, root = parse(content, "TMX", "tmx")
    header = root.find("header")
    own = header.attributes.get("srclang", "") if header else ""
    wanted = own if language_alone(source) in ("", AUTO) else source
    units = list(root.descendants("tu")) if target else []
    values = list(_values(text, units, "" if wanted == _ALL else wanted, target))
    if units and not any(_variant(unit, wanted) for unit in units) and wanted not in ("", _ALL):
        raise UnreadableDocument(f"The TMX file has no unit in {clean(wanted)}.")
    return catalogue_content(text, values, target, encode)


def _values(text: str, units: list[XmlNode], source: str, target: str) -> Iterator[Value]:
    for number, unit in enumerate(units, 1):
        variants = [child for child in unit.children if child.name == "tuv"]
        given = _variant(unit, source) if source else next(iter(variants), None)
        segment = given.find("seg") if given else None
        if given is None or segment is None or language_alone(_language(given)) == language_alone(target):
            continue
        name = f"unit {unit.attributes.get('tuid') or number}"
        pieces = [inline_piece(text, segment)]
        existing = _variant(unit, target, exact=True)
        old = existing.find("seg") if existing else None
        if old is not None:
            if not text[old.content : old.content_end].strip() and not old.is_empty_tag:
                yield Value(old.content, old.content_end, "", str, name, True, pieces)
        elif existing is None:
            last = variants[-1]
            gap = _space(text[unit.content : unit.children[0].start])
            before = _space(text[given.content : segment.start])
            opening = f'{gap}<tuv xml:lang="{target}" creationid="{_AUTHOR}">{before}<seg>'
            closing = f"</seg>{_space(text[segment.end : given.content_end])}</tuv>"
            yield Value(last.end, last.end, "", partial(written, opening, closing, str), name, True, pieces)


def _space(text: str) -> str:
    return text if text.isspace() else ""


def _language(variant: XmlNode) -> str:
    return (variant.attributes.get("xml:lang") or variant.attributes.get("lang") or "").replace("_", "-").lower()


def _variant(unit: XmlNode, language: str, exact: bool = False) -> XmlNode | None:
    """The unit's variant in `language`, or else, unless `exact`, in a variety of it."""
    wanted = language.replace("_", "-").lower()
    variants = [child for child in unit.children if child.name == "tuv"]
    found = [one for one in variants if _language(one) == wanted]
    if not found and not exact:
        found = [one for one in variants if language_alone(_language(one)) == language_alone(wanted)]
    return found[0] if found else None
