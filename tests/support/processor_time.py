"""How much processor time something takes, for tests that compare two such times."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

_ROUNDS = 5


def least_seconds(work: Callable[[], object]) -> float:
    """Of the fastest of several rounds: what else the machine does only ever adds to a round."""
    times = []
    for _ in range(_ROUNDS):
        began = process_time()
        work()
        times.append(process_time() - began)
    return min(times)
