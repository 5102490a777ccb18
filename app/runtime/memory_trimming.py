"""Returns memory to the system after a burst of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.runtime.byte_budgets import ByteBudget
from model.machine import give_freed_memory_back

INTERVAL_S = 5.0
MIN_FREED_BYTES = 32 << 20
"""Freed bytes worth returning; less is not worth the time."""


async def trim(
    budgets: Sequence[ByteBudget],
    give_back: Callable[[], object] = give_freed_memory_back,
    interval_s: float = INTERVAL_S,
) -> None:
    """Checks `budgets` until cancelled, and calls `give_back` in a thread when much memory has been freed."""
    while True:
        await asyncio.sleep(interval_s)
        if sum(budget.peak - budget.used for budget in budgets) >= MIN_FREED_BYTES:
            for budget in budgets:
                budget.peak = budget.used
            await asyncio.to_thread(give_back)
