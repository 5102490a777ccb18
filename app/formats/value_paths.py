"""Paths of values in JSON, YAML and TOML: how they are displayed, and a filter of those to translate.

The notation is that of JSONPath (RFC 9535), of which the filter takes names, indices, wildcards and descendants.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

from app.formats.document import WrongOption, part_of_name

_PLAIN_KEY = re.compile(r"[^\W\d]\w*")
_STEP = re.compile(
    r"""(?P<deep>\.\.)? (?:
        (?(deep)|\.) (?P<name> \* | [^\W\d][\w-]* )
        | \[\s* (?: (?P<all>\*) | (?P<index>\d{1,9}) | (?P<quoted> "(?:[^"\\]|\\.)*" ) | '(?P<single>[^'\\]*)' ) \s*\]
    )""",
    re.VERBOSE,
)
_MAX_STEPS = 30
_MAX_PATHS = 20
_MAX_SHOWN_CHARS = 1_000
_SEPARATOR = re.compile(r"\s*,\s*|\s+")


class ValuePath(NamedTuple):
    """The path of a value, as displayed, and how far it leads along those of a filter: a bit for each step done."""

    shown: str
    state: int


@dataclass(frozen=True)
class _Step:
    """`key`: of an object or a list; None matches all. `is_deep`: at any depth."""

    key: str | int | None
    is_deep: bool


class PathFilter:
    """Which values to translate: those at a path of the filter, or below one. An empty filter takes all.

    All its paths are followed at once, so that a value's cost depends on neither their number nor its depth.
    """

    def __init__(self, paths: str) -> None:
        """`paths`: "$.menu.*, $..title". Raises WrongOption if one is not understood."""
        self.patterns: list[list[_Step]] = []
        place = 0
        while place < len(paths):
            if gap := _SEPARATOR.match(paths, place):
                place = gap.end()
                continue
            place = self._read(paths, place)
        if len(self.patterns) > _MAX_PATHS:
            raise WrongOption("paths", f"There are over {_MAX_PATHS} paths of values to translate.")
        start = self.deep = self.ends = self.wildcards = 0
        self.names: dict[str | int, int] = {}
        bit = 1
        for steps in self.patterns:
            start |= bit
            for step in steps:
                self.deep |= bit * step.is_deep
                if step.key is None:
                    self.wildcards |= bit
                else:
                    self.names[step.key] = self.names.get(step.key, 0) | bit
                bit <<= 1
            self.ends |= bit
            bit <<= 1
        self.root = ValuePath("$", start)

    def _read(self, paths: str, start: int) -> int:
        """Appends the path at `start`, and returns its end."""
        steps, place = list[_Step](), start + 1
        while paths[start] == "$" and (found := _STEP.match(paths, place)):
            steps.append(_step(found))
            place = found.end()
        if (
            paths[start] != "$"
            or len(steps) > _MAX_STEPS
            or (place < len(paths) and not _SEPARATOR.match(paths, place))
        ):
            shown = paths[start : start + 60].splitlines()[0]
            raise WrongOption("paths", f"The path {shown} is not like $.menu.items[0], $.menu.* or $..title.")
        self.patterns.append(steps)
        return place

    def below(self, path: ValuePath, *keys: str | int) -> ValuePath:
        """The path of a value in the one at `path`."""
        shown, state = path
        for key in keys:
            if len(shown) <= _MAX_SHOWN_CHARS:
                shown += _shown(key)
            done = state & (self.wildcards | self.names.get(key, 0))
            state = done << 1 | state & (self.deep | self.ends)
        return ValuePath(shown, state)

    def takes(self, path: ValuePath) -> bool:
        """Whether the value at `path` is to be translated."""
        return not self.patterns or bool(path.state & self.ends)


def _shown(key: str | int) -> str:
    """A key in JSONPath's notation: .items, [0]."""
    if isinstance(key, str):
        key = part_of_name(key)
        if _PLAIN_KEY.fullmatch(key):
            return f".{key}"
    return f"[{json.dumps(key, ensure_ascii=False)}]"


def _step(found: re.Match[str]) -> _Step:
    is_deep = found["deep"] is not None
    if found["index"]:
        return _Step(int(found["index"]), is_deep)
    if found["all"] or found["name"] == "*":
        return _Step(None, is_deep)
    if found["quoted"]:
        try:
            return _Step(json.loads(found["quoted"]), is_deep)
        except ValueError as error:
            raise WrongOption("paths", f"The name {found['quoted']} is no JSON string: {error}.") from None
    return _Step(found["single"] if found["single"] is not None else found["name"], is_deep)
