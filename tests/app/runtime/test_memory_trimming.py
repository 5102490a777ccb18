"""The memory of a burst is returned to the system afterwards."""

from __future__ import annotations

import asyncio

import pytest

from app.runtime.byte_budgets import ByteBudget, Reservation
from app.runtime.memory_trimming import MIN_FREED_BYTES, trim


@pytest.mark.slow
@pytest.mark.parametrize(("taken", "left", "times"), [(MIN_FREED_BYTES, 0, 1), (MIN_FREED_BYTES, 1, 0), (100, 0, 0)])
def test_memory_is_returned_once_after_much_was_released(taken: int, left: int, times: int) -> None:
    called = []

    async def watched() -> None:
        first, second = ByteBudget(1 << 40), ByteBudget(1 << 40)
        reservation = Reservation(first)
        reservation.grow(taken)
        watching = asyncio.create_task(trim([first, second], lambda: called.append(1), interval_s=0.01))
        await asyncio.sleep(0.05)
        assert not called
        reservation.resize(left)
        await asyncio.sleep(0.1)
        watching.cancel()

    asyncio.run(watched())
    assert len(called) == times
