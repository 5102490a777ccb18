"""Tables of reStructuredText: their cells, by docutils' own parsers, and the same tables with other texts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

from docutils.parsers.rst.tableparser import GridTableParser, SimpleTableParser, TableMarkupError, update_dict_of_lists
from docutils.utils import column_indices, column_width, strip_combining_chars

from app.formats.document import UnreadableDocument
from app.formats.rst_lines import Line, Lines, lines_of

_PAD = "\0"
"""docutils puts it after a character that takes two columns."""
_RULE = re.compile(r"[=-][=\- ]*\Z")
_RUN = re.compile(r"[=-]+")
_MIN_STEPS, _STEPS_PER_CHAR = 2_000, 8


class Cell(NamedTuple):
    """A cell: its first line and the number of the column boundaries around it, its text, and that text's indentation.

    In a grid, the lines and the boundaries are those of its borders; in a simple table, boundary 2n begins column n,
    and 2n + 1 ends it.
    """

    top: int
    bottom: int
    left: int
    right: int
    indent: int
    lines: Sequence[str]


class Grid(NamedTuple):
    """A table: its lines, its column boundaries in columns of characters, and its cells."""

    lines: Sequence[Line]
    bounds: Sequence[int]
    cells: Sequence[Cell]
    head_rule: int | None
    is_full: bool
    """Whether it has borders around its cells."""


class _BoundedParser(GridTableParser):
    """Gives up on a table that takes the cube of the time for its size."""

    steps = 0
    block: Any
    stripped_block: list[str]

    def parse_table(self) -> None:
        """As docutils does it, but in a heap of corners: it sorts all of them after each cell."""
        self.stripped_block = list(map(strip_combining_chars, self.block))
        corners = [(0, 0)]
        while corners:
            top, left = heappop(corners)
            if top == self.bottom or left == self.right or top <= self.done[left]:
                continue
            if not (found := self.scan_cell(top, left)):
                continue
            bottom, right, rowseps, colseps = found
            update_dict_of_lists(self.rowseps, rowseps)
            update_dict_of_lists(self.colseps, colseps)
            self.mark_done(top, left, bottom, right)
            text = self.block.get_2D_block(top + 1, left + 1, bottom, right)
            text.replace(_PAD, "")
            self.cells.append((top, left, bottom, right, text))  # type: ignore[arg-type]
            heappush(corners, (top, right))
            heappush(corners, (bottom, left))
        if not self.check_parse_complete():
            raise TableMarkupError("Malformed table; parse incomplete.")

    def mark_done(self, top: int, left: int, bottom: int, right: int) -> None:
        """docutils asserts what a malformed table does not keep."""
        if any(self.done[column] != top - 1 for column in range(left, right)):
            raise TableMarkupError("Malformed table; cells overlap.")
        super().mark_done(top, left, bottom, right)

    def scan_left(self, top: int, left: int, bottom: int, right: int) -> Any:
        self._count(right - left)
        return super().scan_left(top, left, bottom, right)

    def scan_down(self, top: int, left: int, right: int) -> Any:
        found = super().scan_down(top, left, right)
        lines = self.stripped_block
        end = found[0] if found else next((n for n in range(top + 1, len(lines)) if lines[n][right] not in "+|"), top)
        self._count(end - top)
        return found

    def scan_up(self, top: int, left: int, bottom: int, right: int) -> Any:
        self._count(bottom - top)
        return super().scan_up(top, left, bottom, right)

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MIN_STEPS + _STEPS_PER_CHAR * len(self.block) * (self.right + 1):
            raise UnreadableDocument("A table of the file has too many corners for its size.")


def cells_of(block: Any, is_full: bool) -> Grid:
    """The table that these lines are; the parser has padded them. Raises TableMarkupError, UnreadableDocument."""
    lines = [line.replace(_PAD, "") for line in block]
    if is_full:
        parser: Any = _BoundedParser()
        parser.parse(block)
        bounds = sorted(parser.colseps)
        places = {bound: place for place, bound in enumerate(bounds)}
        cells = [
            Cell(top, bottom, places[left], places[right], _indent(parser, top, left, bottom, right), text)
            for top, left, bottom, right, text in parser.cells
        ]
        return Grid(lines, bounds, cells, parser.head_body_sep, is_full)
    if len(lines[0].split()) * len(lines) > _MIN_STEPS + _STEPS_PER_CHAR * sum(map(len, lines)):
        raise TableMarkupError("The table has too many cells for its size.")
    simple: Any = SimpleTableParser()
    _, head, body = simple.parse(block)
    bounds = [bound for column in simple.columns for bound in column]
    cells = []
    for row in [*head, *body]:
        column = 0
        for _, more, top, text in row:
            start, end = bounds[2 * column], bounds[2 * (column + more) + 1]
            raw = simple.block.get_2D_block(top, start, top + len(text), end, strip_indent=False)
            last = column + more
            cells.append(Cell(top - 1, top + len(text), 2 * column, 2 * last + 1, _first_indent(raw, text), list(text)))
            column = last + 1
    return Grid(lines, bounds, cells, simple.head_body_sep, is_full)


def _indent(parser: Any, top: int, left: int, bottom: int, right: int) -> int:
    block = parser.block.get_2D_block(top + 1, left + 1, bottom, right, strip_indent=False)
    return min((len(line) - len(line.lstrip()) for line in block if line), default=0)


def _first_indent(raw: Any, text: Any) -> int:
    """How much indentation `text` lacks that `raw` has."""
    lines = (one.replace(_PAD, "") for one in raw)
    return next((len(one) - len(other) for one, other in zip(lines, text, strict=True) if one), 0)


def with_texts(grid: Grid, texts: Sequence[Sequence[str]]) -> list[str] | None:
    """The lines of the table with other texts in its cells, which have at most as many lines; None if there is no such
    table. Columns grow as is needed."""
    bounds = _bounds_for(grid, texts)
    canvas = _Canvas(len(grid.lines))
    (_draw_borders if grid.is_full else _draw_rules)(canvas, grid, bounds)
    for cell, text in zip(grid.cells, texts, strict=True):
        if len(text) > cell.bottom - cell.top - 1:
            return None
        for number, line in enumerate(text, cell.top + 1):
            canvas.write(number, bounds[cell.left] + cell.indent + grid.is_full, line)
    lines = canvas.lines()
    return lines if _has_texts(lines, grid, texts) else None


def _bounds_for(grid: Grid, texts: Sequence[Sequence[str]]) -> list[int]:
    """From left to right, each boundary as far to the right as the cells that end there need."""
    ending = defaultdict[int, list[tuple[int, int]]](list)
    for cell, text in zip(grid.cells, texts, strict=True):
        width = max(map(column_width, text), default=0)
        ending[cell.right].append((cell.left, cell.indent + width + (2 if grid.is_full and width else 0)))
    bounds, grown = list[int](), 0
    for place, bound in enumerate(grid.bounds):
        needed = max((bounds[left] + width for left, width in ending[place]), default=0)
        grown = max(grown, needed - bound)
        bounds.append(bound + grown)
    return bounds


def _draw_borders(canvas: _Canvas, grid: Grid, bounds: Sequence[int]) -> None:
    for cell in grid.cells:
        left, right = bounds[cell.left], bounds[cell.right]
        for number in (cell.top, cell.bottom):
            canvas.write(number, left, ("=" if number == grid.head_rule else "-") * (right - left))
        for number in range(cell.top + 1, cell.bottom):
            canvas.write(number, left, "|")
            canvas.write(number, right, "|")
    for cell in grid.cells:
        for number in (cell.top, cell.bottom):
            canvas.write(number, bounds[cell.left], "+")
            canvas.write(number, bounds[cell.right], "+")


def _draw_rules(canvas: _Canvas, grid: Grid, bounds: Sequence[int]) -> None:
    new = dict(zip(grid.bounds, bounds, strict=True))
    for number, line in enumerate(grid.lines):
        if _RULE.match(line):
            for run in _RUN.finditer(line):
                start, end = new.get(run.start(), 0), new.get(run.end(), bounds[-1])
                canvas.write(number, start, run[0][0] * (end - start))


class _Canvas:
    """Lines of characters in columns, of which a wide character takes two and a combining one none."""

    def __init__(self, lines: int) -> None:
        self._lines: list[dict[int, str]] = [{} for _ in range(lines)]

    def write(self, line: int, column: int, text: str) -> None:
        written, starts = self._lines[line], [*column_indices(text), len(text)]
        if starts[0]:
            written[column - 1] = written.get(column - 1, " ") + text[: starts[0]]
        for start, end in pairwise(starts):
            written[column] = text[start:end]
            column += 1
            if column_width(text[start]) == 2:
                written[column] = ""
                column += 1

    def lines(self) -> list[str]:
        return [
            "".join(line.get(column, " ") for column in range(max(line, default=-1) + 1)).rstrip()
            for line in self._lines
        ]


def _has_texts(lines: Sequence[str], grid: Grid, texts: Sequence[Sequence[str]]) -> bool:
    """Whether the parser finds the same cells with these texts."""
    block = Lines(lines_of("\n".join(lines)))
    block.pad_double_width(_PAD)
    try:
        found = cells_of(block, grid.is_full)
    except (TableMarkupError, UnreadableDocument):
        return False
    shapes = [(cell.top, cell.bottom, cell.left, cell.right) for cell in grid.cells]
    return shapes == [(cell.top, cell.bottom, cell.left, cell.right) for cell in found.cells] and all(
        _visible(cell.lines) == _visible(text) for cell, text in zip(found.cells, texts, strict=True)
    )


def _visible(lines: Sequence[str]) -> list[str]:
    return [line for line in map(str.strip, lines) if line]
