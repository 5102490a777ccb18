"""Translation memories, .tmx, as documents: adds the target's variant to units that have none.

Pairs of codes go around their words, other codes are values of their sentence. What is there is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument
from app.formats.passage_builder import PassageBuilder
from app.formats.xml_positions import XmlNode, clean, escape, parse, plain_text
from app.markup.passage import OBJECT, VALUE, Passage, Piece
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
        pieces = _pieces(text, segment)
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
            yield Value(last.end, last.end, "", partial(_between, opening, closing), name, True, pieces)


def _between(opening: str, closing: str, text: str) -> str:
    return f"{opening}{text}{closing}"


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


def _pieces(text: str, segment: XmlNode) -> list[Piece]:
    """A segment's content as one passage; as it is, if it has no words."""
    builder = PassageBuilder()
    pairs = {node.attributes.get("i", "") for node in segment.children if node.name == "bpt"}
    pairs &= {node.attributes.get("i", "") for node in segment.children if node.name == "ept"}
    _add(builder, text, segment, pairs)
    passage: Passage | None = builder.build_translatable(escape)
    return [text[segment.content : segment.content_end]] if passage is None else [passage]


def _add(builder: PassageBuilder, text: str, node: XmlNode, pairs: set[str]) -> None:
    done = node.content
    for child in node.children:
        builder.add_text(plain_text(text[done : child.start]))
        done = child.end
        raw, key = text[child.start : child.end], child.attributes.get("i", "")
        if child.name == "hi" and not child.is_empty_tag:
            builder.open_tag(text[child.start : child.content], child)
            _add(builder, text, child, set())
            builder.close_tag(text[child.content_end : child.end], child)
        elif child.name in ("bpt", "ept") and key in pairs:
            (builder.open_tag if child.name == "bpt" else builder.close_tag)(raw, key)
        elif child.name in ("bpt", "ept", "it"):
            builder.add_protected(OBJECT, raw)
        else:
            builder.add_protected(VALUE, raw)
    builder.add_text(plain_text(text[done : node.content_end]))
