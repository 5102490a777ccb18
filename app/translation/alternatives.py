"""Combines alternatives of parts into alternatives of the whole, best first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence


def best_combinations(scores: Sequence[Sequence[float]]) -> Iterator[dict[int, int]]:
    """Combinations of one score from each list, in descending order of their sums; each list is in descending order.

    A combination maps a list's index to the index of the score chosen from it, and omits lists whose first score is
    chosen: each combination has as many successors as there are lists, so that complete ones would take quadratic
    space.
    """
    # With indices negated, and the lowest first, combinations with equal sums are in lexicographic order.
    best: tuple[tuple[int, int], ...] = ()
    heap = [(-sum(options[0] for options in scores), best)]
    seen = {best}
    while heap:
        total, combination = heapq.heappop(heap)
        numbers = dict(combination)
        yield {-place: number for place, number in combination}
        for place, options in enumerate(scores):
            number = numbers.get(-place, 0) + 1
            if number == len(options):
                continue
            other = tuple(sorted({**numbers, -place: number}.items(), reverse=True))
            if other not in seen:
                seen.add(other)
                heapq.heappush(heap, (total + options[number - 1] - options[number], other))
