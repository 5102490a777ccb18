"""Polls something repeatedly, and reports each problem once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def watch(
    look: Callable[[], Awaitable[None]],
    every_s: float,
    wrong: tuple[type[Exception], ...],
    complain: Callable[[Exception], None],
) -> None:
    """Calls `look` forever. Passes errors of the kinds `wrong` to `complain`, only the first of consecutive ones."""
    told = ""
    while True:
        await asyncio.sleep(every_s)
        try:
            await look()
            told = ""
        except wrong as error:
            if told != (told := repr(error)):
                complain(error)
