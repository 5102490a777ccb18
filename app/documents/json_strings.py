"""JSON catalogues (i18next, ARB and their like): the string values. Keys, order, numbers and layout stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from app.documents.document import Content, Slot, UnreadableDocument, slotted
from app.documents.encodings import decoded
from app.passage import Passage

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_NAMES_VALUE = re.compile(r"[ \t\n\r]*:")
_WIDE_ESCAPE = re.compile(r"\\u(?!00[0-7])")


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decoded(content)
    _check(text)
    # Who spelt "é" as "\u00e9" has a reason to stay within ASCII.
    ascii_only = text.isascii() and _WIDE_ESCAPE.search(text) is not None
    slots = []
    for start, end in _values(text):
        value: str = json.loads(text[start:end])
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise UnreadableDocument(f"The string at character {start} holds a lone surrogate, which is no character.")
        if any(map(str.isalpha, value)):
            slots.append(Slot(start, end, Passage(value), lambda t: json.dumps(t, ensure_ascii=ascii_only)))
    return slotted(text, slots, encode)


def _check(text: str) -> None:
    """Once it is known to be JSON, what stands where can be told by its brackets and quotes."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        raise UnreadableDocument("The JSON is nested too deeply.") from None
    except ValueError as error:
        raise UnreadableDocument(f"The file is not JSON: {error}.") from None


def _values(text: str) -> Iterator[tuple[int, int]]:
    """Where the string values stand, quotes included: not those of a key with "@", which is ARB's or JSON-LD's own."""
    depth, hidden = 0, -1
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if depth <= hidden:
                hidden = -1
        elif _NAMES_VALUE.match(text, token.end()):
            if hidden in (-1, depth):
                hidden = depth if json.loads(token[0]).startswith("@") else -1
        elif hidden == -1:
            yield token.span()
