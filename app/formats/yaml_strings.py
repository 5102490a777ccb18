"""YAML of translations, as Rails and others have it: translates the values that are strings.

PyYAML says where they are; keys, comments, anchors, quotation marks, indentation and order are kept. Nothing is
constructed and no alias resolved. If the file has its source language as its only outermost key, it gets the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument, bounded_list, check_depth
from app.formats.encodings import decode
from app.formats.value_paths import PathFilter, ValuePath
from app.formats.yaml_scalars import is_string, written_like
from model.languages import AUTO, NAMES, language_alone

_PROPERTIES = re.compile(r"(?:[&!]\S*+(?:\s++|#[^\n]*+\n)++)++")
"""Anchor and tag, before a value."""
_MAX_STRING_CHARS = 200_000


def read(content: bytes, target: str = "", source: str = "", paths: str = "") -> Content:
    """Raises UnreadableDocument. `source` and `target` are languages; `paths`: see PathFilter."""
    text, encode = decode(content)
    if text.startswith("\ufeff"):
        raise UnreadableDocument("The file is not YAML: it begins with two byte order marks.")
    outermost = list[yaml.NodeEvent]()
    values = read_values(text, paths, outermost)
    if target and len(outermost) == 1 and isinstance(outermost[0], yaml.ScalarEvent):
        values += _locale_key(text, outermost[0], source, target)
    return catalogue_content(text, values, target, encode)


def read_values(text: str, paths: str, outermost: list[yaml.NodeEvent]) -> list[Value]:
    """The strings at `paths`. Adds the outermost keys to `outermost`. Raises UnreadableDocument."""
    try:
        return bounded_list(_values(text, PathFilter(paths), outermost))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UnreadableDocument(f"The file is not YAML: {line}{said}.") from None


class _Place:
    """A mapping or a list that is being read."""

    def __init__(self, is_mapping: bool, is_flow: bool, path: ValuePath) -> None:
        self.is_mapping, self.is_flow, self.path = is_mapping, is_flow, path
        self.key: str | int = "" if is_mapping else -1
        self.awaits_key = is_mapping

    def begin(self) -> bool:
        """Begins the next node; returns whether it is a key."""
        if not self.is_mapping:
            assert isinstance(self.key, int)
            self.key += 1
            return False
        was_key = self.awaits_key
        self.awaits_key = not was_key
        return was_key


def _values(text: str, chosen: PathFilter, outermost: list[yaml.NodeEvent]) -> Iterator[Value]:
    places: list[_Place] = []
    within_key = 0
    """The number of places when a key began that is itself a mapping or a list; 0 outside such keys."""
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            places.pop()
            if len(places) < within_key:
                within_key = 0
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        is_key = bool(places) and places[-1].begin()
        if is_key and len(places) == 1:
            outermost.append(event)
        if isinstance(event, yaml.CollectionStartEvent):
            path = _path(places, chosen)
            if is_key:
                places[-1].key = "?"
                within_key = within_key or len(places) + 1
            is_flow = bool(event.flow_style) or (bool(places) and places[-1].is_flow)
            places.append(_Place(isinstance(event, yaml.MappingStartEvent), is_flow, path))
            check_depth(len(places), "The YAML")
        elif is_key:
            places[-1].key = event.value if isinstance(event, yaml.ScalarEvent) else "*"
        elif isinstance(event, yaml.ScalarEvent) and not within_key and is_string(event):
            path = _path(places, chosen)
            if any(map(str.isalpha, event.value)) and chosen.takes(path):
                yield _value(text, event, path.shown, bool(places) and places[-1].is_flow)


def _path(places: list[_Place], chosen: PathFilter) -> ValuePath:
    """That of the next value in the innermost place."""
    return chosen.below(places[-1].path, places[-1].key) if places else chosen.root


def _value(text: str, event: yaml.ScalarEvent, name: str, is_flow: bool) -> Value:
    start, end = event.start_mark.index, event.end_mark.index
    if properties := _PROPERTIES.match(text, start, end):
        start = properties.end()
    if end - start > _MAX_STRING_CHARS:
        raise UnreadableDocument(f"The file has a string of more than {_MAX_STRING_CHARS} characters.")
    raw = text[start:end]
    shown, encode = written_like(raw, event.value, event.style or "", is_flow)
    return Value(start, end, shown, encode, name)


def _locale_key(text: str, key: yaml.ScalarEvent, source: str, target: str) -> list[Value]:
    """The only outermost key, if it is the source language."""
    code = language_alone(key.value)
    if code not in NAMES or language_alone(source) not in ("", AUTO, code) or key.style not in ("", "'", '"'):
        return []
    start, end = key.start_mark.index, key.end_mark.index
    _, encode = written_like(text[start:end], key.value, key.style, True)
    return [Value(start, end, target, lambda _: encode(target), adds=True, pieces=[target])]
