"""Finds the reading order of a PDF's page as pdfminer.six does, in less time.

The library compares each block with each other one, of which a page may have tens of thousands. Above a number of
blocks, their order is that of their positions. Among pairs that are equally close, it chooses by addresses in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Any

from pdfminer.layout import LAParams, LTPage
from pdfminer.utils import Plane

_MAX_COMPARED = 200
"""Blocks of a page of which each is compared with each other one. A page of small print has a hundred."""
_MIN_PAIRS, _PAIRS_PER_BYTE = 10_000, 9
"""Of blocks that are compared in a file: the second for the bytes from the 4,097th. Each takes 8 us."""


class Params(LAParams):
    """The library's parameters, with the number of pairs of blocks that may still be compared."""

    def __init__(self, size: int) -> None:
        """For a file of `size` bytes."""
        super().__init__()
        self.pairs_left = _MIN_PAIRS + _PAIRS_PER_BYTE * max(0, size - 4_096)


class Page(LTPage):
    """A page whose blocks are put in reading order, by parameters that are `Params`."""

    def group_textboxes(self, laparams: LAParams, boxes: Sequence[Any]) -> list[Any]:
        """The blocks in reading order."""
        assert isinstance(laparams, Params)
        flow = laparams.boxes_flow
        assert flow is not None
        pairs = len(boxes) * (len(boxes) - 1) // 2
        if len(boxes) > _MAX_COMPARED or pairs > laparams.pairs_left:
            return sorted(boxes, key=lambda box: (-box.y0, box.x0))
        laparams.pairs_left -= pairs
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
        plane: Plane[Any] = Plane(self.bbox)
        plane.extend(boxes)
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
