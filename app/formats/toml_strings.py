"""TOML of translations: translates the values that are strings. Keys, comments, quotation marks and order are kept.

tomllib checks that the file is TOML; then brackets, quotation marks and equals signs suffice to locate its values.
tomlkit would not do: it has no positions, writes tables between others in another order, and takes nine times as long.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import partial

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument, bounded_list, check_depth, line_numbers
from app.formats.encodings import decode, escape_above
from app.formats.value_paths import PathFilter, ValuePath

_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"{3,5}'
    r"|'''(?:[^']|'(?!''))*+'{3,5}"
    r'|"(?!"")(?:[^"\\\n]|\\.)*+"'
    r"|'(?!'')[^'\n]*+'"
    r"|\#[^\n]*+|[\[\]{},=.\n\"']|[^\s\"'\[\]{},=.\#]++"
)
_SPECIAL = re.compile('[\\\\"\x00-\x1f\x7f]')
_SPELLINGS = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_WIDE_ESCAPE = re.compile(r"\\u(?!00[0-7])|\\U")
_MAX_KEY_PARTS = 100
"""Of one key; tomllib's time grows with their square."""
_MAX_PARTS = 300_000
"""Of all keys; tomllib keeps several objects for each."""


def read(content: bytes, target: str = "", paths: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to translate labels into; `paths`: see PathFilter."""
    text, encode = decode(content)
    return catalogue_content(text, read_values(text, paths), target, encode)


def read_values(text: str, paths: str) -> Iterator[Value]:
    """The strings at `paths`. Raises UnreadableDocument."""
    values = bounded_list(_values(text, PathFilter(paths)))
    try:
        tomllib.loads(text)
    except RecursionError:
        raise UnreadableDocument("The TOML is nested too deeply.") from None
    except ValueError as error:
        raise UnreadableDocument(f"The file is not TOML: {str(error).splitlines()[0]}.") from None
    return map(partial(_value, text), values)


def _values(text: str, chosen: PathFilter) -> Iterator[tuple[int, int, str]]:
    """Where strings are, with their quotation marks, and their paths. The text need not be TOML.

    Raises UnreadableDocument for what tomllib would take long to read.
    """
    table, key = chosen.root, list[str]()
    containers: list[ValuePath] = []
    """The paths of open lists and inline tables, to which their keys or indices are added."""
    indices: list[int] = []
    """The next index in each, -1 in a table."""
    in_header, in_value, parts = False, False, 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if token[0] in ("'", '"'):
            return  # it is never closed, and tomllib says so
        if first == "#":
            continue
        if first == "\n":
            if not containers:
                if in_header:
                    table = chosen.below(chosen.root, *key)
                in_header, in_value, key = False, False, []
        elif in_header or not in_value:
            if first == "[" and not containers and not key:
                in_header = True
            elif first == "=":
                in_value = True
            elif first == "}" and containers:
                in_value = _close(containers, indices)
            elif first not in "[].,{}":
                key.append(token[0][1:-1] if first in "\"'" else token[0])
                parts += 1
                if len(key) > _MAX_KEY_PARTS or parts > _MAX_PARTS:
                    line = line_numbers(text)(token.start())
                    limits = f"{_MAX_KEY_PARTS} parts, or the file over {_MAX_PARTS}"
                    raise UnreadableDocument(f"The key in line {line} has over {limits}.")
        elif first in "[{":
            containers.append(chosen.below(containers[-1] if containers else table, *_last(key, indices)))
            indices.append(0 if first == "[" else -1)
            in_value, key = first == "[", []
            check_depth(len(containers), "The TOML")
        elif first in "]}":
            in_value = _close(containers, indices)
        elif first == ",":
            if indices and indices[-1] >= 0:
                indices[-1] += 1
            else:
                in_value, key = False, []
        elif first in "\"'":
            path = chosen.below(containers[-1] if containers else table, *_last(key, indices))
            if chosen.takes(path):
                yield *token.span(), path.shown


def _last(key: list[str], indices: list[int]) -> list[str | int]:
    """The last part of a path: a key, or an index of the innermost list."""
    return [indices[-1]] if indices and indices[-1] >= 0 else list(key)


def _close(containers: list[ValuePath], indices: list[int]) -> bool:
    """Closes the innermost list or table; what follows is after a value."""
    if containers:
        containers.pop()
        indices.pop()
    return True


def _value(text: str, found: tuple[int, int, str]) -> Value:
    start, end, name = found
    raw = text[start:end]
    value = tomllib.loads(f"x={raw}")["x"]
    ascii_only = raw.isascii() and _WIDE_ESCAPE.search(raw) is not None
    return Value(start, end, value, partial(_written, raw, ascii_only), name)


def _written(raw: str, ascii_only: bool, text: str) -> str:
    """`text` in the quotation marks of `raw`, or in the ones that it needs."""
    mark = raw[:3] if raw[:3] in ('"""', "'''") and len(raw) >= 6 else raw[0]
    if mark == "'" and not ("'" in text or "\n" in text or _CONTROL.search(text)):
        return f"'{text}'"
    end = "\r\n" if "\r\n" in raw else "\n"
    lead = next((line for line in ("\r\n", "\n") if raw.startswith(line, 3)), "") if len(mark) == 3 else ""
    if text[:1] in ("\n", "\r"):
        lead = lead or end  # the first line end is no part of the string
    if mark == "'''" and "''" not in text and not text.endswith("'") and not _CONTROL.search(text):
        return f"'''{lead}{text}'''" if "\n" not in text else f"'''{lead}{text.replace(chr(10), end)}'''"
    spelled = _SPECIAL.sub(lambda found: _SPELLINGS.get(found[0]) or f"\\u{ord(found[0]):04X}", text)
    if ascii_only:
        spelled = "".join(one if ord(one) <= 0xFFFF else f"\\U{ord(one):08X}" for one in spelled)
        spelled = escape_above(0x7F, spelled, "\\u")
    if len(mark) == 1:
        return f'"{spelled}"'
    return f'"""{lead}{_with_lines(spelled, raw, end)}"""'


def _with_lines(spelled: str, raw: str, end: str) -> str:
    """A multi-line string's content: line ends as such, and quotation marks where no three are together."""
    lines = re.sub(r"(\\\\)|\\n", lambda found: found[1] or end, spelled)
    return re.sub(r'(\\\\)|\\"(?!\\"|\Z)', lambda found: found[1] or '"', lines)
