"""app/runtime/event_loop.py: what runs on the event loop, and what in a thread."""

from __future__ import annotations

import asyncio
from threading import current_thread, main_thread

import pytest

from app.runtime.event_loop import MAX_SIZE, Pauses, fits, run


@pytest.mark.parametrize(("size", "is_inline"), [(0, True), (MAX_SIZE, True), (MAX_SIZE + 1, False)])
def test_only_work_within_the_budget_runs_on_the_event_loop(size: int, is_inline: bool) -> None:
    assert fits(size) is is_inline
    assert (asyncio.run(run(size, current_thread)) is main_thread()) is is_inline


def test_work_gets_its_arguments_and_its_errors_are_raised() -> None:
    assert asyncio.run(run(0, divmod, 7, 2)) == asyncio.run(run(MAX_SIZE + 1, divmod, 7, 2)) == (3, 1)
    assert asyncio.run(run(MAX_SIZE + 1, int, "11", base=2)) == 3
    for size in (0, MAX_SIZE + 1):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(run(size, divmod, 1, 0))


@pytest.mark.parametrize(("pieces", "pauses"), [([1], 0), ([MAX_SIZE], 1), ([MAX_SIZE // 4] * 9, 2), ([9], 0)])
def test_others_run_whenever_the_pieces_fill_the_budget(pieces: list[int], pauses: int) -> None:
    others = 0

    async def work() -> None:
        done = Pauses()
        for size in pieces:
            await done.after(size)

    async def count() -> None:
        nonlocal others
        working = asyncio.create_task(work())
        await asyncio.sleep(0)
        while not working.done():
            others += 1
            await asyncio.sleep(0)

    asyncio.run(count())
    assert others == pauses
