"""Sentence pairs in TMX, the exchange format of translation memories, read as a stream.

Resolves no entities, and opens no other files or URLs.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from lxml import etree

from model.languages import language_alone
from training.corpora.text_file import CorpusError

_TMX_START = re.compile(
    rb"\s*(?:<\?xml\b[^>]{0,200}>\s*)?(?>(?:<!--.*?-->\s*)*)(?:<!DOCTYPE\s+tmx\b|<tmx\b)", re.DOTALL
)
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_CODE_ELEMENTS = {"bpt", "ept", "it", "ph", "ut"}
"""Elements that contain another format's code, not text."""


def is_tmx(path: Path) -> bool:
    """Whether `path` is a TMX file: by its beginning, or by its name if it is compressed or in UTF-16."""
    with open(path, "rb") as file:
        head = file.read(4096)
    plain = head.removeprefix(b"\xef\xbb\xbf")
    return bool(_TMX_START.match(plain)) or (
        bool(re.search(r"\.tmx(?:\.gz)?$", path.name, re.IGNORECASE))
        and head[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")
    )


def tmx_lines(path: Path, source: str, target: str) -> Iterator[bytes]:
    """Yields a line per unit: source, tab, target and line end; a side that a unit lacks is empty.

    Raises CorpusError, with the line of the file, if the XML is damaged, or if no unit has both languages.
    """
    found = False
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else open(path, "rb") as file:
        units = etree.iterparse(
            file, events=("end",), tag=("tu", "{*}tu"), resolve_entities=False, load_dtd=False, no_network=True
        )
        try:
            for _, unit in units:
                sides = _segment_in(unit, source), _segment_in(unit, target)
                found = found or all(sides)
                yield "\t".join(sides).encode() + b"\n"
                _free(unit)
        except etree.XMLSyntaxError as error:
            raise CorpusError(path, f"damaged XML: {error.msg}", error.lineno) from None
        except (EOFError, OSError, zlib.error) as error:
            raise CorpusError(path, f"cannot be read: {error}") from None
    if not found:
        raise CorpusError(path, f"no unit of this TMX has both {source} and {target}")


def _free(unit: etree._Element) -> None:
    """Frees what has been read: `unit`, and the empty ones before it."""
    unit.clear()
    parent = unit.getparent()
    while parent is not None and unit.getprevious() is not None:
        del parent[0]


def _segment_in(unit: etree._Element, code: str) -> str:
    """The text of `unit` in a language: that of the variant with this exact code, else of any in the same language."""
    texts: dict[str, str] = {}
    for variant in unit.iterchildren("{*}tuv", "tuv"):
        language = (variant.get(_XML_LANG) or variant.get("lang") or "").casefold().replace("_", "-")
        segment = next(variant.iterchildren("{*}seg", "seg"), None)
        if segment is not None:
            texts.setdefault(language, " ".join("".join(text_below(segment, _CODE_ELEMENTS)).split()))
    wanted = code.casefold().replace("_", "-")
    alike = (text for language, text in texts.items() if language_alone(language) == language_alone(wanted))
    return texts.get(wanted) or next(alike, "")


def text_below(element: etree._Element, without: Collection[str]) -> Iterator[str]:
    """The text in `element` and below it, without comments, entities, and the elements of these names below it."""
    pending = [(element, False)]
    while pending:
        node, after = pending.pop()
        if after:
            yield node.tail or ""
            continue
        is_read = isinstance(node.tag, str) and etree.QName(node).localname not in without
        if node is element or is_read:
            yield node.text or ""
            pending += [entry for child in reversed(node) for entry in ((child, True), (child, False))]
