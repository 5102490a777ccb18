"""Files of translation memories: TMX 1.4, read and written, and tab-separated lines, read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import PurePath

from lxml import etree

from app.formats.document import UnreadableDocument
from app.formats.encodings import decode
from app.formats.xml_parts import Element, clean, local_name, parse_xml
from app.text.memory_index import Pair
from model.languages import language_alone

TMX = "application/x-tmx+xml"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_NATIVE_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""Elements whose content is a code of another format, no text (TMX 1.4b, "Inline Elements")."""


def read_pairs(name: str, content: bytes, source: str, target: str) -> list[tuple[str, str]]:
    """The texts and translations of a file: TMX if its name ends in .tmx, else a text, a tab and its translation on
    each line. Raises UnreadableDocument."""
    if PurePath(name).suffix.lower() == ".tmx":
        return list(_read_tmx(content, source, target))
    return list(_read_tsv(content))


def write_tmx(pairs: Iterable[Pair], source: str, target: str, version: str) -> bytes:
    """A TMX file, with the time and the author of each pair. `version`: the service's."""
    root = etree.Element("tmx", version="1.4")
    header = {"creationtool": "Interlinear", "creationtoolversion": version, "segtype": "sentence"}
    header |= {"o-tmf": "Interlinear", "adminlang": "en", "srclang": source, "datatype": "plaintext"}
    etree.SubElement(root, "header", header)
    body = etree.SubElement(root, "body")
    for pair in pairs:
        created = datetime.fromtimestamp(pair.created, UTC).strftime("%Y%m%dT%H%M%SZ")
        unit = etree.SubElement(body, "tu", creationdate=created)
        if pair.author:
            unit.set("creationid", pair.author)
        for language, text in ((source, pair.source), (target, pair.target)):
            variant = etree.SubElement(unit, "tuv", {_LANG: language})
            etree.SubElement(variant, "seg").text = clean(text)
    written: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=True, pretty_print=True)
    return written


def _read_tsv(content: bytes) -> Iterator[tuple[str, str]]:
    text, _ = decode(content)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise UnreadableDocument(f"Line {number} is not a text, a tab and its translation.")
        yield parts[0], parts[1]


def _read_tmx(content: bytes, source: str, target: str) -> Iterator[tuple[str, str]]:
    root = parse_xml(content, "The TMX file")
    if local_name(root) != "tmx":
        raise UnreadableDocument(f"The file is not TMX: its first element is {local_name(root)}.")
    units = _units(root)
    is_found = False
    for unit in units:
        variants = [(_language(child), child) for child in unit if local_name(child) == "tuv"]
        texts = _segment(variants, source), _segment(variants, target)
        if texts[0] and texts[1]:
            is_found = True
            yield texts[0], texts[1]
    if units and not is_found:
        raise UnreadableDocument(f"The TMX file has no unit with both {source} and {target}.")


def _units(root: Element) -> list[Element]:
    """The units, without those in each other, whose texts would be repeated."""
    units = [element for element in root.iter(etree.Element) if local_name(element) == "tu"]
    within = {element for unit in units for element in unit.iterancestors() if local_name(element) == "tu"}
    return units if not within else [unit for unit in units if not any(e in within for e in unit.iterancestors())]


def _language(variant: Element) -> str:
    return (variant.get(_LANG) or variant.get("lang") or "").replace("_", "-").lower()


def _segment(variants: list[tuple[str, Element]], language: str) -> str:
    """The text in `language`, or else in a variant of it."""
    wanted = language.lower()
    alone = [variant for code, variant in variants if language_alone(code) == language_alone(wanted)]
    for variant in [*(variant for code, variant in variants if code == wanted), *alone]:
        for child in variant:
            if local_name(child) == "seg":
                return "".join(_text_parts(child)).strip()
    return ""


def _text_parts(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if local_name(child) and local_name(child) not in _NATIVE_CODES:
            yield from _text_parts(child)
        yield child.tail or ""
