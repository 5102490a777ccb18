"""Finds the lines, blocks and reading order of a PDF's page as pdfminer.six does, within a budget of work.

The library compares each block with each other one, and each line with those beside it, of which a page may have tens
of thousands. Above a number of blocks, their order is that of their positions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from math import sqrt
from typing import Any

from pdfminer.layout import LAParams, LTPage, LTTextBoxHorizontal

from app.formats.pdf_budget import Budget

_MAX_COMPARED = 200
"""Blocks of a page of which each is compared with each other one. A page of small print has a hundred."""
_LINE_UNITS, _PAIR_UNITS = 50, 4
_GRID = 50
_MAX_CELLS = 4_000
"""Of the grid in which blocks are looked up; a page of DIN A0 has 3,264."""


class Page(LTPage):
    """A page whose layout counts. Raises UnreadableDocument."""

    def __init__(self, pageid: int, bbox: tuple[float, float, float, float], budget: Budget) -> None:
        super().__init__(pageid, bbox)
        self._budget = budget

    def group_textlines(self, laparams: LAParams, lines: Iterable[Any]) -> Iterator[Any]:
        """Joins lines that are close to each other to blocks."""
        listed = list(lines)
        plane = _Plane(self.bbox, self._budget)
        self._budget.spend(_LINE_UNITS * len(listed))
        for line in listed:
            plane.add(line)
        boxes: dict[Any, LTTextBoxHorizontal] = {}
        for line in listed:
            members = [line]
            for neighbour in line.find_neighbors(plane, laparams.line_margin):
                members.append(neighbour)
                if neighbour in boxes:
                    members.extend(boxes.pop(neighbour))
                    self._budget.spend(0.1 * len(members))
            box = LTTextBoxHorizontal()
            unique = dict.fromkeys(members)
            self._budget.spend(2 * len(unique))
            for member in unique:
                box.add(member)
                boxes[member] = box
        return (box for box in dict.fromkeys(boxes[line] for line in listed if line in boxes) if not box.is_empty())

    def group_textboxes(self, laparams: LAParams, boxes: Sequence[Any]) -> list[Any]:
        """The blocks in reading order."""
        flow = laparams.boxes_flow
        assert flow is not None
        pairs = len(boxes) * (len(boxes) - 1) / 2
        if len(boxes) > _MAX_COMPARED or 2 * _PAIR_UNITS * pairs > self._budget.units / 2:
            return sorted(boxes, key=lambda box: (-box.y0, box.x0))
        ordered, waiting = list[Any](), [*reversed(self._groups(boxes))]
        while waiting:
            one = waiting.pop()
            if isinstance(one, _Group):
                by_flow = sorted(one.parts, key=lambda part: (1 - flow) * part.x0 - (1 + flow) * (part.y0 + part.y1))
                waiting += reversed(by_flow)
            else:
                ordered.append(one)
        return ordered

    def _groups(self, boxes: Sequence[Any]) -> list[Any]:
        """Groups of groups of blocks: joins the closest two until one is left, first those with nothing between."""
        self._budget.spend(_PAIR_UNITS * len(boxes) ** 2 / 2)
        plane = _Plane(self.bbox, self._budget)
        for box in boxes:
            plane.add(box)
        left, numbers = dict(enumerate(boxes)), count(len(boxes))
        pairs = [
            (False, _Group(one, other).free_area, first, second)
            for first, one in left.items()
            for second, other in zip(range(first + 1, len(boxes)), boxes[first + 1 :], strict=True)
        ]
        heapq.heapify(pairs)
        while pairs:
            is_parted, area, first, second = heapq.heappop(pairs)
            if first not in left or second not in left:
                continue
            one, other = left[first], left[second]
            group = _Group(one, other)
            if not is_parted and any(each is not one and each is not other for each in plane.find(group.bbox)):
                heapq.heappush(pairs, (True, area, first, second))
                continue
            for number in (first, second):
                plane.remove(left.pop(number))
            number = next(numbers)
            self._budget.spend(_PAIR_UNITS * len(left))
            for other_number, each in left.items():
                heapq.heappush(pairs, (False, _Group(group, each).free_area, number, other_number))
            plane.add(group)
            left[number] = group
        return list(left.values())


class _Group:
    """Two blocks or groups."""

    __slots__ = ("bbox", "height", "parts", "width", "x0", "x1", "y0", "y1")

    def __init__(self, one: Any, other: Any) -> None:
        self.parts = (one, other)
        self.x0, self.y0 = min(one.x0, other.x0), min(one.y0, other.y0)
        self.x1, self.y1 = max(one.x1, other.x1), max(one.y1, other.y1)
        self.width, self.height = self.x1 - self.x0, self.y1 - self.y0
        self.bbox = self.x0, self.y0, self.x1, self.y1

    @property
    def free_area(self) -> float:
        """The area of the rectangle around both that neither covers; below zero if they overlap."""
        one, other = self.parts
        area: float = self.width * self.height - one.width * one.height - other.width * other.height
        return area


class _Plane:
    """Objects on a page, looked up by a grid. Those outside the page are never found."""

    def __init__(self, bbox: tuple[float, float, float, float], budget: Budget) -> None:
        self._bbox, self._budget = bbox, budget
        width, height = bbox[2] - bbox[0], bbox[3] - bbox[1]
        self._grid = max(_GRID, int(max(sqrt(width * height / _MAX_CELLS), width / _MAX_CELLS, height / _MAX_CELLS)))
        self._cells: dict[tuple[int, int], dict[Any, None]] = {}

    def add(self, one: Any) -> None:
        for cell in self._around((one.x0, one.y0, one.x1, one.y1)):
            self._cells.setdefault(cell, {})[one] = None

    def remove(self, one: Any) -> None:
        for cell in self._around((one.x0, one.y0, one.x1, one.y1)):
            del self._cells[cell][one]

    def find(self, bbox: tuple[float, float, float, float]) -> Iterator[Any]:
        """The objects that overlap a rectangle."""
        x0, y0, x1, y1 = bbox
        found = set[Any]()
        for cell in self._around(bbox):
            for one in self._cells.get(cell, ()):
                self._budget.spend(0.3)
                if one not in found:
                    found.add(one)
                    if one.x1 > x0 and x1 > one.x0 and one.y1 > y0 and y1 > one.y0:
                        yield one

    def _around(self, bbox: tuple[float, float, float, float]) -> Iterator[tuple[int, int]]:
        (x0, y0, x1, y1), (left, bottom, right, top) = bbox, self._bbox
        if x1 <= left or right <= x0 or y1 <= bottom or top <= y0:
            return
        for row in self._steps(max(bottom, y0), min(top, y1)):
            for column in self._steps(max(left, x0), min(right, x1)):
                self._budget.spend(0.3)
                yield column, row

    def _steps(self, start: float, end: float) -> range:
        return range(int(start) // self._grid, int(end + self._grid) // self._grid)
