"""Apple's .stringsdict, and .strings that are XML: translates the strings of a property list.

A plural gets the categories of the target language. Keys, formats, types and layout are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from app.formats.catalogue_strings import PluralItem, Value, catalogue_content, plural_values
from app.formats.document import Content, UnreadableDocument, part_of_name
from app.formats.xml_positions import XmlNode, parse, plain_encoder, plain_text
from app.text.plural_categories import CATEGORIES

_PLURAL = "NSStringPluralRuleType"
_TYPE_KEY = "NSStringFormatSpecTypeKey"
_VARIABLE = re.compile(r"%(?:\d+\$)?#@[^@]*@")
_MAX_PATH_CHARS = 1_000
_FIXED_KEYS = {_TYPE_KEY, "NSStringFormatValueTypeKey"}


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language whose plural categories the file gets."""
    text, encode, root = parse(content, ".stringsdict", "plist")
    entries = _entries(text, _dictionary(root))
    return catalogue_content(text, _dictionary_values(text, entries, target, ""), target, encode)


def read_strings(content: bytes, target: str = "") -> Content:
    """Reads a .strings file that is XML. Raises UnreadableDocument."""
    text, encode, root = parse(content, ".strings", "plist")
    entries = _entries(text, _dictionary(root))
    values = (_value(text, node, key) for _, key, node in entries if _is_string(node))
    return catalogue_content(text, values, target, encode)


def _dictionary(root: XmlNode) -> XmlNode:
    found = root.find("dict")
    if found is None:
        raise UnreadableDocument("The property list has no dictionary.")
    return found


def _entries(text: str, dictionary: XmlNode) -> list[tuple[XmlNode, str, XmlNode]]:
    """Each key's element, the key, and its value's element. Raises UnreadableDocument."""
    nodes = dictionary.children
    keys, values = nodes[::2], nodes[1::2]
    if len(nodes) % 2 or any(key.name != "key" for key in keys):
        raise UnreadableDocument("The property list has a dictionary in which keys and values do not alternate.")
    return [
        (key, plain_text(text[key.content : key.content_end]), value) for key, value in zip(keys, values, strict=True)
    ]


def _dictionary_values(
    text: str, entries: Sequence[tuple[XmlNode, str, XmlNode]], target: str, path: str
) -> Iterator[Value]:
    """The strings of a dictionary and of those in it. The parser limits their depth."""
    kinds = {key: plain_text(text[node.content : node.content_end]) for _, key, node in entries if key == _TYPE_KEY}
    if kinds.get(_TYPE_KEY) == _PLURAL:
        items = [
            PluralItem(key, (name.content, name.content_end), name.start, node.end, _value(text, node, f"{path}{key}"))
            for name, key, node in entries
            if _is_string(node) and key in CATEGORIES
        ]
        # Readers use `zero` for the number 0 in every language.
        yield from plural_values(text, items, target, kept=("zero",))
        return
    for _, key, node in entries:
        if node.name == "dict":
            inner = f"{path}{part_of_name(key)}." if len(path) <= _MAX_PATH_CHARS else path
            yield from _dictionary_values(text, _entries(text, node), target, inner)
        elif _is_string(node) and key not in _FIXED_KEYS:
            value = _value(text, node, f"{path}{key}")
            if any(map(str.isalpha, _VARIABLE.sub("", value.text))):
                yield value


def _is_string(node: XmlNode) -> bool:
    return node.name == "string" and not node.children and not node.is_empty_tag


def _value(text: str, node: XmlNode, name: str) -> Value:
    raw = text[node.content : node.content_end]
    return Value(node.content, node.content_end, plain_text(raw), plain_encoder(raw), name)
