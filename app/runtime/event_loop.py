"""Decides which work runs on the event loop, which all requests share, and which in a thread.

Work may hold the event loop for `BUDGET_S`. How long it takes is estimated from its size, in characters of text that
is planned: split into sentences and encoded. An AMD EPYC with AVX2 plans 1,100 of them a millisecond, measured by
benchmarks/event_loop.py; other work states how many characters it is worth. A switch to a thread takes 0.1 ms, as much
as a short sentence, so small work does without.

Work that waits for a disk, a network or a process is no such decision: it always runs in a thread, by
`asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

BUDGET_S = 0.002
"""How long one piece of work may hold the event loop."""
CHARS_PER_MS = 1_000
MAX_SIZE = round(1000 * BUDGET_S * CHARS_PER_MS)
"""The size of the largest work that fits the budget."""
TERM_SIZE, TAG_SIZE = 40, 20
"""The sizes of a glossary's term, to look for it, and of a tag, to place it."""


def fits(size: int) -> bool:
    """Whether work of that size may run on the event loop."""
    return size <= MAX_SIZE


async def run(size: int, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """The result of `work`, called on the event loop if work of that size fits the budget, else in a thread."""
    if fits(size):
        return work(*arguments, **options)
    return await asyncio.to_thread(work, *arguments, **options)


class Pauses:
    """Interrupts a loop over small pieces of work, so that other tasks run whenever the pieces add up to the budget."""

    __slots__ = ("_size",)

    def __init__(self) -> None:
        self._size = 0

    async def after(self, size: int) -> None:
        """Counts a piece of that size; lets other tasks run if the pieces since the last pause fill the budget."""
        self._size += size
        if self._size >= MAX_SIZE:
            self._size = 0
            await asyncio.sleep(0)
