"""Translatable values of a Markdown file's front matter, its title and description, and their quoting.

Of YAML, handles only values of the outermost mapping, on one line or in an indented block; everything else is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from app.formats.document import Slot, UnreadableDocument
from app.formats.toml_strings import read_values as toml_values
from app.markup.passage import Passage, Tag

_KEY = re.compile(r"^(?:title|subtitle|description|summary)[ \t]*:[ \t]+", re.MULTILINE)
_TOML_PATHS = "$.title, $.subtitle, $.description, $.summary"
_DOUBLE = re.compile(r'"((?:[^"\\\r\n]|\\.)*)"(?=[ \t]*(?:#|\r|\n|\Z))')
_SINGLE = re.compile(r"'((?:[^'\r\n]|'')*)'(?=[ \t]*(?:#|\r|\n|\Z))")
_PLAIN = re.compile(r"[^\s\"'\[\]{}>|*&!%@`#,?:-](?:[^\r\n#:]|(?<!\s)#|:(?=\S))*+(?=#|\r|\n|\Z)")
_BLOCK = re.compile(
    r"([|>])[-+]?[ \t]*(?:\r\n?|\n)((?:([ \t]+)\S[^\r\n]*(?:\r\n?|\n|\Z))(?:\3\S[^\r\n]*(?:\r\n?|\n|\Z))*)"
)
_CONTINUES = re.compile(r"[^\r\n]*(?:\r\n?|\n)[ \t]+\S")
"""A value that continues on the next line."""
_NOT_A_STRING = re.compile(r"(?:null|true|false|yes|no|on|off|~|[-+.\d][\d.,:eE_+-]*)", re.IGNORECASE)
"""Values that YAML does not read as strings."""
_LINE = re.compile(r"[^\r\n]+")


def slots(text: str, start: int, end: int) -> Iterator[Slot]:
    """The text values in characters [start, end) of the file, in order."""
    for key in _KEY.finditer(text, start, end):
        value_start = key.end()
        if block := _BLOCK.match(text, value_start, end):
            yield from _block(text, *block.span(2), folded=block[1] == ">")
        elif not _CONTINUES.match(text, value_start, end):
            yield from filter(None, [_scalar(text, value_start, end)])


def toml_slots(text: str, start: int, end: int) -> Iterator[Slot]:
    """The text values of front matter in TOML, in order; none if it is not TOML."""
    first, last = text.index("+++", start) + 3, text.rindex("+++", start, end)
    with suppress(UnreadableDocument):
        for value in toml_values(text[first:last], _TOML_PATHS):
            if any(map(str.isalpha, value.text)):
                yield Slot(first + value.start, first + value.end, Passage(value.text), value.encode)


def _scalar(text: str, value_start: int, end: int) -> Slot | None:
    if found := _DOUBLE.match(text, value_start, end):
        try:
            value = json.loads(f'"{found[1]}"', strict=False)
        except ValueError:
            return None  # an escape that only YAML has
        return _slot(found.start(1), found.end(1), value, _escape_double)
    if found := _SINGLE.match(text, value_start, end):
        return _slot(found.start(1), found.end(1), found[1].replace("''", "'"), _escape_single)
    found = _PLAIN.match(text, value_start, end)
    if found is None or _NOT_A_STRING.fullmatch(found[0]):
        return None
    value = found[0].rstrip()
    return _slot(found.start(), found.start() + len(value), value, _encode_plain)


def _slot(start: int, end: int, value: str, encode: Callable[[str], str]) -> Slot | None:
    return Slot(start, end, Passage(value), encode) if any(map(str.isalpha, value)) else None


def _block(text: str, start: int, end: int, folded: bool) -> Iterator[Slot]:
    """A folded block as a whole, or each line of a literal block."""
    found = _LINE.finditer(text, start, end)
    lines = [(line.end() - len(line[0].lstrip()), line.end()) for line in found]
    if not folded:
        for first, last in lines:
            yield from filter(None, [_slot(first, last, text[first:last].rstrip(), str)])
        return
    parts, tags, length = list[str](), list[Tag](), 0
    for number, (first, last) in enumerate(lines):
        if number:
            tags.append(Tag(length, text[lines[number - 1][1] : first], space=True))
            parts.append(" ")
            length += 1
        parts.append(text[first:last])
        length += last - first
    passage = Passage("".join(parts), tags=tuple(tags))
    if any(map(str.isalpha, passage.text)):
        yield Slot(lines[0][0], lines[-1][1], passage)


def _escape_double(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _escape_single(text: str) -> str:
    return text.replace("'", "''")


def _encode_plain(text: str) -> str:
    """`text` without quotation marks, if YAML reads the same text from it."""
    found = _PLAIN.fullmatch(text)
    return text if found and not _NOT_A_STRING.fullmatch(text) and text == text.strip() else f'"{_escape_double(text)}"'
