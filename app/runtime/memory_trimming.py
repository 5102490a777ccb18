"""Gives the memory of a burst back to the system once it is over. Knows rooms, and not what is in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from app.runtime.byte_budgets import Room
from model.machine import give_freed_memory_back

EVERY_S = 5.0
LEAST_BYTES = 32 << 20
"""What was in the rooms and is gone; for less it is not worth the time."""


async def trim(
    rooms: Sequence[Room], give_back: Callable[[], object] = give_freed_memory_back, every_s: float = EVERY_S
) -> None:
    """Until it is cancelled, looks into `rooms` and has `give_back` called, in a thread, when much has left them."""
    while True:
        await asyncio.sleep(every_s)
        if sum(room.peak - room.taken for room in rooms) >= LEAST_BYTES:
            for room in rooms:
                room.peak = room.taken
            await asyncio.to_thread(give_back)
