"""JSON catalogues (i18next, ARB and similar): translates the string values. Keys, order, numbers and layout are
kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial

from app.formats.catalogue_strings import CatalogueString, read_string
from app.formats.document import Content, Slot, UnreadableDocument, content_of_slots
from app.formats.encodings import decode
from app.text.mnemonics import mnemonic_marks

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]')
_PLAIN_KEY = re.compile(r"[^\W\d]\w*")
_AFTER_KEY = re.compile(r"[ \t\n\r]*:")
_WIDE_ESCAPE = re.compile(r"\\u(?!00[0-7])")


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to translate labels into."""
    text, encode = decode(content)
    _check(text)
    # A file that spells "é" as "\u00e9" stays within ASCII for a reason.
    ascii_only = text.isascii() and _WIDE_ESCAPE.search(text) is not None
    values: list[tuple[int, int, str, str]] = []
    for start, end, path in _values(text):
        value: str = json.loads(text[start:end])
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise UnreadableDocument(f"The string at character {start} has a lone surrogate, which is not a character.")
        if any(map(str.isalpha, value)):
            values.append((start, end, path, value))
    marks = mnemonic_marks(value for *_, value in values)
    slots = []
    for start, end, path, value in values:
        string = read_string(value, target, marks)
        slots.append(Slot(start, end, string.pieces, partial(_encode, string, ascii_only), path))
    return content_of_slots(text, slots, encode)


def _encode(string: CatalogueString, ascii_only: bool, translation: str) -> str:
    return json.dumps(string.finish(translation), ensure_ascii=ascii_only)


def _check(text: str) -> None:
    """Checks that `text` is JSON; then brackets and quotes suffice to locate its values."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        raise UnreadableDocument("The JSON is nested too deeply.") from None
    except ValueError as error:
        raise UnreadableDocument(f"The file is not JSON: {error}.") from None


def _values(text: str) -> Iterator[tuple[int, int, str]]:
    """The positions of the string values, quotes included, and their paths, except for keys with "@", which belong to
    ARB or JSON-LD."""
    skipped_depth = -1
    path: list[str | int] = []
    """For each open object its latest key, and for each open list the index of its next item."""
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            path.append("" if token[0] == "{" else 0)
        elif token[0] in "}]":
            path.pop()
            if len(path) <= skipped_depth:
                skipped_depth = -1
        elif token[0] == ",":
            if isinstance(path[-1], int):
                path[-1] += 1
        elif _AFTER_KEY.match(text, token.end()):
            path[-1] = json.loads(token[0])
            if skipped_depth in (-1, len(path)):
                skipped_depth = len(path) if str(path[-1]).startswith("@") else -1
        elif skipped_depth == -1:
            yield *token.span(), _json_path(path)


def _json_path(path: Sequence[str | int]) -> str:
    """In JSONPath notation (RFC 9535): $.menu.items[0]."""
    parts = ["$"]
    for part in path:
        is_plain = isinstance(part, str) and _PLAIN_KEY.fullmatch(part)
        parts.append(f".{part}" if is_plain else f"[{json.dumps(part, ensure_ascii=False)}]")
    return "".join(parts)
