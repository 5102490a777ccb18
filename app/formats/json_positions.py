"""JSON by its positions: where each value is in the text, so that only some of them change."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from app.formats.document import UnreadableDocument, check_depth

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]|[^\s{}\[\],:"]+')
AFTER_KEY = re.compile(r"[ \t\n\r]*:")


@dataclass(eq=False, slots=True)
class JsonNode:
    """A value in characters [start, end). An object has `members`, in file order; the last of equal keys counts."""

    start: int
    end: int = 0
    key_start: int = 0
    """Of a member: where its key begins."""
    members: dict[str, JsonNode] = field(default_factory=dict)

    def get(self, *path: str) -> JsonNode | None:
        """The value at a path of keys."""
        node: JsonNode | None = self
        for key in path:
            node = node.members.get(key) if node else None
        return node


def check_json(text: str) -> Any:
    """The parsed text, with numbers as strings. Raises UnreadableDocument."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        raise UnreadableDocument("The JSON is nested too deeply.") from None
    except ValueError as error:
        raise UnreadableDocument(f"The file is not JSON: {error}.") from None


def check_characters(value: str, start: int) -> str:
    """`value`, unless it has half of a character. Raises UnreadableDocument."""
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise UnreadableDocument(f"The string at character {start} has a lone surrogate, which is not a character.")
    return value


def locate(text: str) -> JsonNode:
    """The root of `text`, which must be JSON; then brackets and quotes suffice to locate its values.

    Raises UnreadableDocument if it is nested too deeply.
    """
    outer = JsonNode(0)
    open_nodes, key, key_start = [outer], "", 0
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first in "}]":
            open_nodes.pop().end = token.end()
            continue
        if first == '"' and AFTER_KEY.match(text, token.end()):
            key, key_start = json.loads(token[0]), token.start()
            continue
        node = JsonNode(token.start(), token.end(), key_start)
        open_nodes[-1].members[key] = node
        if first in "{[":
            open_nodes.append(node)
            check_depth(len(open_nodes), "The JSON")
    return outer.members.get("") or next(iter(outer.members.values()), outer)
