"""The units of text in a file, each with an id: paragraphs of XML and HTML, strings of JSON, YAML and Fluent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import yaml
from fluent.syntax import FluentParser
from fluent.syntax import ast as fluent
from lxml import etree

from model.languages import language_alone
from training.corpora.sentences import in_any_namespace, parsed
from training.corpora.text_file import CorpusError, open_text
from training.corpora.tmx import text_below

OBJECT = "\ue000"
"""Stands in a unit's text for what is no text: a formula, an image, a value that a program fills in."""
_MARKED_UP = (".xml", ".cnxml", ".xhtml", ".html", ".htm", ".dita", ".docbook")
_DATA = (".json", ".yaml", ".yml")
SUFFIXES = (*_MARKED_UP, *_DATA, ".ftl")
PARAGRAPHS = ("p", "para", "li", "item", "dt", "dd", "td", "h1", "h2", "h3", "h4")
"""Elements of XML and HTML that are read by default."""
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
_MATHML = "http://www.w3.org/1998/Math/MathML"
_LISTS = {"list", "ul", "ol", "itemizedlist", "orderedlist"}
_APART = {"p", "para", "li", "item", *_LISTS, "figure", "table", "note", "equation", "exercise"}
"""Elements within a paragraph that are no part of its text; what they contain has ids of its own."""
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_PLACEHOLDER = re.compile(r"\$?\{[^{}]*\}|%(?:\d+\$)?[sdif@]|%\([a-z_]+\)[sd]|%\{[^{}]*\}")


def units(path: Path, elements: Sequence[str], language: str) -> Iterator[tuple[str, str]]:
    """Yields the id and the text of each unit: of XML and HTML each of the `elements`, by default of `PARAGRAPHS`, with
    an id; of other files each string, or those of these keys. JSON and YAML may have theirs under the code of
    `language`.

    Raises CorpusError, and OSError for a file that cannot be read.
    """
    if path.suffix == ".ftl" or path.suffix in _DATA:
        strings = _fluent_strings(path) if path.suffix == ".ftl" else _data_strings(path, language)
        for identifier, text in strings:
            if not elements or identifier.rpartition(".")[2] in elements:
                yield identifier, unescape(_TAG.sub("", text))
    else:
        for element in parsed(path).iter(*in_any_namespace(elements or PARAGRAPHS)):
            if named := element.get("id") or element.get(_XML_ID):
                yield named, _text(element)


def _data_strings(path: Path, language: str) -> Iterator[tuple[str, str]]:
    try:
        for identifier, text in _strings(_root(_loaded(path), language)):
            yield identifier, _PLACEHOLDER.sub(OBJECT, text)
    except RecursionError:
        raise CorpusError(path, "it is nested too deeply") from None


def _loaded(path: Path) -> Any:
    text = "\n".join(open_text(path).lines())
    try:
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except json.JSONDecodeError as error:
        raise CorpusError(path, f"damaged JSON: {error.msg}", error.lineno) from None
    except yaml.YAMLError as error:
        raise CorpusError(path, f"damaged YAML: {' '.join(str(error).split())}") from None


def _root(data: Any, language: str) -> Any:
    """What is under the code of the language, if the file has that alone."""
    if isinstance(data, dict) and len(data) == 1:
        [(key, value)] = data.items()
        if language_alone(str(key)) == language_alone(language):
            return value
    return data


def _strings(data: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(data, str):
        yield place, data
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _strings(value, f"{place}.{key}")


def _fluent_strings(path: Path) -> Iterator[tuple[str, str]]:
    """Messages, terms and their attributes."""
    text = "\n".join(open_text(path).lines())
    for entry in FluentParser(with_spans=False).parse(f"{text}\n").body:
        if isinstance(entry, fluent.Message | fluent.Term):
            named = [("", entry.value), *((f".{one.id.name}", one.value) for one in entry.attributes)]
            for name, pattern in named:
                if pattern is not None:
                    yield f"{entry.id.name}{name}", "".join(map(_fluent_text, pattern.elements))


def _fluent_text(element: fluent.TextElement | fluent.Placeable) -> str:
    return element.value if isinstance(element, fluent.TextElement) else OBJECT


def _text(element: etree._Element) -> str:
    parts = [element.text or ""]
    for child in element:
        if isinstance(child.tag, str):
            parts.append(_inline(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _inline(child: etree._Element) -> str:
    """The text of an element within a paragraph."""
    name = etree.QName(child)
    if name.localname in ("br", "newline", "footnote"):
        return " "
    if name.localname in _APART:
        return f" {OBJECT} "
    return OBJECT if name.namespace == _MATHML or not "".join(text_below(child, ())).strip() else _text(child)
