"""Polls something repeatedly, and reports each problem once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def watch(
    check: Callable[[], Awaitable[None]],
    interval_s: float,
    errors: tuple[type[Exception], ...],
    report: Callable[[Exception], None],
) -> None:
    """Calls `check` forever. Passes exceptions of the types `errors` to `report`, without consecutive repetitions."""
    last = ""
    while True:
        await asyncio.sleep(interval_s)
        try:
            await check()
            last = ""
        except errors as error:
            if last != (last := repr(error)):
                report(error)
