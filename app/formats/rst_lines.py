"""Lines of a reStructuredText file that know where their characters are in it, through all that docutils does to them.

docutils' parser cuts a file into lines, and these into blocks without their indentation; its nodes tell a line's number
at best. These lines are strings that keep their places when they are cut, and lists that are cut without being copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex
from unicodedata import east_asian_width

from docutils.statemachine import StringList
from docutils.utils import column_indices

_TAB_COLUMNS = 8
_OTHER_SPACE = re.compile("[\v\f]")


class Line(str):
    """A string, and the place in the file of each of its characters, and of its end."""

    __slots__ = ("_columns", "places")
    places: Sequence[int]
    _columns: Sequence[int] | None

    def __new__(cls, text: str, places: Sequence[int]) -> Line:
        line = super().__new__(cls, text)
        line.places, line._columns = places, None
        return line

    @property
    def start(self) -> int:
        return self.places[0]

    @property
    def end(self) -> int:
        return self.places[-1]

    @property
    def columns(self) -> Sequence[int]:
        """Where in the line each column begins: a combining character has none of its own."""
        if self._columns is None:
            self._columns = range(len(self)) if self.isascii() else column_indices(self)
        return self._columns

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if not isinstance(key, slice):
            return super().__getitem__(key)
        start, stop, _ = key.indices(len(self))
        return Line(super().__getitem__(key), self.places[start : max(start, stop) + 1])

    def lstrip(self, characters: str | None = None, /) -> Line:
        return Line(text := super().lstrip(characters), self.places[len(self) - len(text) :])

    def rstrip(self, characters: str | None = None, /) -> Line:
        return Line(text := super().rstrip(characters), self.places[: len(text) + 1])

    def strip(self, characters: str | None = None, /) -> Line:
        return self.lstrip(characters).rstrip(characters)

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        """Keeps the places where a character is replaced by one or none."""
        if old not in self:
            return self
        if len(old) == len(new) == 1:
            return Line(super().replace(old, new), self.places)
        if len(old) != 1 or new:
            return super().replace(old, new, count)
        kept = [place for place, character in zip(self.places, self, strict=False) if character != old]
        return Line(super().replace(old, ""), [*kept, self.end])


def lines_of(text: str) -> list[Line]:
    """The lines of `text` as docutils sees them: without white space at their ends, and tabs as spaces."""
    found, start = list[Line](), 0
    for raw in _OTHER_SPACE.sub(" ", text).splitlines(keepends=True):
        visible = raw.rstrip()
        if "\t" in visible:
            found.append(_without_tabs(visible, start))
        else:
            found.append(Line(visible, range(start, start + len(visible) + 1)))
        start += len(raw)
    return found


def _without_tabs(raw: str, start: int) -> Line:
    characters, places = "", list[int]()
    for place, character in enumerate(raw, start):
        added = " " * (_TAB_COLUMNS - len(characters) % _TAB_COLUMNS) if character == "\t" else character
        characters += added
        places += [place] * len(added)
    return Line(characters, [*places, start + len(raw)])


class Lines(StringList):
    """A list of lines, or lines [start, stop) of another one, which are copied once they change.

    The parser takes the rest of the file at every list, which would take the square of its time.
    """

    def __init__(self, lines: list[Line], start: int = 0, stop: int | None = None) -> None:
        self.parent: Any = None
        self._lines, self._start = lines, start
        self._stop = len(lines) if stop is None else stop
        self._is_own = False

    @property
    def data(self) -> list[Any]:
        """The lines as a list of their own, in which each may be replaced by another."""
        if not self._is_own or len(self) != len(self._lines):
            self.data = self._lines[self._start : self._stop]
        return self._lines

    @data.setter
    def data(self, lines: list[Any]) -> None:
        self._lines, self._start, self._stop, self._is_own = lines, 0, len(lines), True

    @property
    def items(self) -> list[Any]:  # type: ignore[override]
        """Where docutils notes a line's file and number, which are not used."""
        return [(None, 0)] * len(self)

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, _ = key.indices(len(self))
            return Lines(self._lines, self._start + start, self._start + max(start, stop))
        if key >= len(self) or key < -len(self):
            raise IndexError(key)
        return self._lines[self._start + key if key >= 0 else self._start + len(self) + key]

    def __setitem__(self, key: Any, line: Any) -> None:
        self.data[key] = line

    def __delitem__(self, key: Any) -> None:
        lines = list(self)
        del lines[key]
        self.data = lines

    def trim_start(self, n: int = 1) -> None:
        self._start += n

    def trim_end(self, n: int = 1) -> None:
        self._stop -= n

    def disconnect(self) -> None:
        """Nothing to do: no list changes with another one."""

    def info(self, i: int) -> tuple[Any, Any]:
        return None, i

    def get_text_block(self, start: int, flush_left: bool = False) -> Any:
        end = start
        while end < len(self) and self[end] and not (flush_left and self[end][0] == " "):
            end += 1
        block = Lines(list(self[start : end + 1]))
        return StringList.get_text_block(block, 0, flush_left)

    def get_indented(
        self,
        start: int = 0,
        until_blank: bool = False,
        strip_indent: bool = True,
        block_indent: int | None = None,
        first_indent: int | None = None,
    ) -> Any:
        end = start if block_indent is None and first_indent is None else start + 1
        while end < len(self):
            line = self[end]
            is_outside = line and (line[0] != " " or (block_indent is not None and line[:block_indent].strip()))
            if is_outside or (until_blank and not line):
                break
            end += 1
        block = Lines(list(self[start : end + 1]))
        return StringList.get_indented(block, 0, until_blank, strip_indent, block_indent, first_indent)

    def get_2D_block(self, top: int, left: int, bottom: int, right: int, strip_indent: bool = True) -> Any:
        """As docutils does it, but it looks for combining characters once in a line, not once in it for each cell."""
        lines = []
        for line in self[top:bottom]:
            columns = line.columns
            start = columns[left] if left < len(columns) else left
            end = columns[right] if right < len(columns) else len(line)
            lines.append(line[start:end].rstrip())
        indent = min((len(line) - len(line.lstrip()) for line in lines if line), default=right)
        return Lines([line[indent:] for line in lines] if strip_indent and indent < right else lines)

    def pad_double_width(self, pad_char: str) -> None:
        for number, line in enumerate(self.data):
            if line.isascii():
                continue
            places, characters = list[int](), ""
            for place, character in zip(line.places, line, strict=False):
                added = character + pad_char if east_asian_width(character) in "WF" else character
                characters += added
                places += [place] * len(added)
            self.data[number] = Line(characters, [*places, line.end])
