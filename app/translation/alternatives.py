"""Combines alternatives of parts into alternatives of the whole, best first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence


def best_combinations(scores: Sequence[Sequence[float]]) -> Iterator[dict[int, int]]:
    """Ways to take one of each list, those with the greatest sums first; each list is in descending order.

    Of each, the numbers of what is taken by the lists' places, where that is not the first: one that said all would be
    as long as `scores`, and each has as many next ones.
    """
    # With places negated, and the first of them in front, those with equal sums are in the order of all their numbers.
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
