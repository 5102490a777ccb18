"""Paths of values in JSON, YAML and TOML: how they are displayed, and a filter of those to translate.

The notation is that of JSONPath (RFC 9535), of which the filter takes names, indices, wildcards and descendants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.formats.document import WrongOption

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
_SEPARATOR = re.compile(r"\s*,\s*|\s+")


def value_path(path: Sequence[str | int]) -> str:
    """The path in JSONPath's notation: $.menu.items[0]."""
    parts = ["$"]
    for part in path:
        is_plain = isinstance(part, str) and _PLAIN_KEY.fullmatch(part)
        parts.append(f".{part}" if is_plain else f"[{json.dumps(part, ensure_ascii=False)}]")
    return "".join(parts)


@dataclass(frozen=True)
class _Step:
    """`key`: of an object or a list; None matches all. `is_deep`: at any depth."""

    key: str | int | None
    is_deep: bool


class PathFilter:
    """Which values to translate: those at a path of the filter, or below one. An empty filter takes all."""

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

    def matches(self, path: Sequence[str | int]) -> bool:
        """Whether the value at `path` is to be translated."""
        return not self.patterns or any(_matches(steps, path) for steps in self.patterns)


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


def _matches(steps: Sequence[_Step], path: Sequence[str | int]) -> bool:
    """Whether `steps` lead to `path`, or to something that contains it."""
    reached = {0}  # how many steps may be done
    for part in path:
        if len(steps) in reached:
            return True
        after = set()
        for done in reached:
            step = steps[done]
            if step.is_deep:
                after.add(done)
            if step.key is None or (step.key == part and isinstance(step.key, str) == isinstance(part, str)):
                after.add(done + 1)
        reached = after
        if not reached:
            return False
    return len(steps) in reached
