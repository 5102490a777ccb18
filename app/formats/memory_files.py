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
_MAX_TAGS = 2_000_000
"""Ten for each of 200,000 pairs; they take up to 300 MB while they are read."""


def read_pairs(
    name: str, content: bytes, source: str, target: str, max_pairs: int | None = None
) -> list[tuple[str, str]]:
    """The texts and translations of a file: TMX if its name ends in .tmx, else a text, a tab and its translation on
    each line. Raises UnreadableDocument, also if there are more than `max_pairs`."""
    is_tmx = PurePath(name).suffix.lower() == ".tmx"
    is_over = max_pairs is not None and not is_tmx and content.count(b"\t") > max_pairs  # before it takes memory
    pairs = [] if is_over else list(_read_tmx(content, source, target) if is_tmx else _read_tsv(content))
    if is_over or (max_pairs is not None and len(pairs) > max_pairs):
        raise UnreadableDocument(f"The file has more than {max_pairs:,} pairs.")
    return pairs


def read_tmx(content: bytes, max_pairs: int) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """The texts and translations of a TMX file, by its source language and each other one. Raises UnreadableDocument,
    also if there are more than `max_pairs`."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    root, number = _tmx_root(content), 0
    declared = next((each.get("srclang", "") for each in root if local_name(each) == "header"), "")
    for unit in _units(root):
        texts = {code: _text_of(variant) for code, variant in reversed(_variants(unit))}  # the first of each language
        own = (unit.get("srclang") or declared).replace("_", "-").lower()
        source = next(
            (code for code in reversed(texts) if own == "*all*" or language_alone(code) == language_alone(own)), ""
        )
        for code, text in texts.items():
            if text and texts.get(source) and language_alone(code) != language_alone(source):
                found.setdefault((source, code), []).append((texts[source], text))
                number += 1
        if number > max_pairs:
            raise UnreadableDocument(f"The file has more than {max_pairs:,} pairs.")
    if not found:
        raise UnreadableDocument("The TMX file has no unit in its source language and another one.")
    return found


def write_tmx(pairs: Iterable[Pair], source: str, target: str, version: str) -> bytes:
    """A TMX file, with the time and the author of each pair. `version`: the service's."""
    root = etree.Element("tmx", version="1.4")
    header = {"creationtool": "Interlinear", "creationtoolversion": version, "segtype": "sentence"}
    header |= {"o-tmf": "Interlinear", "adminlang": "en", "srclang": source, "datatype": "plaintext"}
    etree.SubElement(root, "header", header)
    etree.SubElement(root, "body")
    units = [_written_unit(pair, source, target) for pair in pairs]  # a tree of all would take ten times the memory
    written: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=True, pretty_print=True)
    if not units:
        return written
    start, _, end = written.rpartition(b"<body/>")
    return b"".join([start, b"<body>\n", *units, b"  </body>", end])


def _written_unit(pair: Pair, source: str, target: str) -> bytes:
    created = datetime.fromtimestamp(pair.created, UTC).strftime("%Y%m%dT%H%M%SZ")
    unit = etree.Element("tu", creationdate=created)
    if pair.author:
        unit.set("creationid", pair.author)
    for language, text in ((source, pair.source), (target, pair.target)):
        variant = etree.SubElement(unit, "tuv", {_LANG: language})
        etree.SubElement(variant, "seg").text = clean(text)
        variant.text, variant[0].tail, variant.tail = "\n        ", "\n      ", "\n      "
    unit.text, unit[-1].tail, unit.tail = "\n      ", "\n    ", "\n"
    return b"    " + etree.tostring(unit, encoding="UTF-8", xml_declaration=False)


def _read_tsv(content: bytes) -> Iterator[tuple[str, str]]:
    text, _ = decode(content)
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise UnreadableDocument(f"Line {number} is not a text, a tab and its translation.")
        yield parts[0], parts[1]


def _tmx_root(content: bytes) -> Element:
    if content.count(b"<") > _MAX_TAGS:
        raise UnreadableDocument(f"The TMX file has more than {_MAX_TAGS:,} tags.")
    root = parse_xml(content, "The TMX file")
    if local_name(root) != "tmx":
        raise UnreadableDocument(f"The file is not TMX: its first element is {local_name(root)}.")
    return root


def _read_tmx(content: bytes, source: str, target: str) -> Iterator[tuple[str, str]]:
    units = _units(_tmx_root(content))
    is_found = False
    for unit in units:
        variants = _variants(unit)
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


def _variants(unit: Element) -> list[tuple[str, Element]]:
    return [(_language(child), child) for child in unit if local_name(child) == "tuv"]


def _language(variant: Element) -> str:
    return (variant.get(_LANG) or variant.get("lang") or "").replace("_", "-").lower()


def _segment(variants: list[tuple[str, Element]], language: str) -> str:
    """The text in `language`, or else in a variant of it."""
    wanted = language.lower()
    alone = [variant for code, variant in variants if language_alone(code) == language_alone(wanted)]
    exact = [variant for code, variant in variants if code == wanted]
    return next(filter(None, map(_text_of, [*exact, *alone])), "")


def _text_of(variant: Element) -> str:
    segment = next((child for child in variant if local_name(child) == "seg"), None)
    return "" if segment is None else "".join(_text_parts(segment)).strip()


def _text_parts(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if local_name(child) and local_name(child) not in _NATIVE_CODES:
            yield from _text_parts(child)
        yield child.tail or ""
