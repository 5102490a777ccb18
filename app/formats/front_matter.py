"""Translatable values of a Markdown file's front matter, in YAML or TOML: its title and description."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from app.formats import toml_strings, yaml_strings
from app.formats.document import Slot, UnreadableDocument
from app.markup.passage import Passage

_PATHS = ("$.title", "$.subtitle", "$.description", "$.summary")


def slots(text: str, start: int, end: int, is_toml: bool) -> Iterator[Slot]:
    """The values that are text in characters [start, end) of the file, in order; none if they are not as they must
    be."""
    fence = "+++" if is_toml else "---"
    first, last = text.index(fence, start) + 3, text.rindex(fence, start, end)
    inside, paths = text[first:last], ", ".join(_PATHS)
    with suppress(UnreadableDocument):
        found = toml_strings.read_values(inside, paths) if is_toml else yaml_strings.read_values(inside, paths, [])
        for value in found:
            if value.name in _PATHS and any(map(str.isalpha, value.text)):
                yield Slot(first + value.start, first + value.end, Passage(value.text), value.encode)
