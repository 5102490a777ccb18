"""Looks at something again and again, and says once what is wrong with it. Knows not what it looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def watch(
    look: Callable[[], Awaitable[None]],
    every_s: float,
    wrong: tuple[type[Exception], ...],
    complain: Callable[[Exception], None],
) -> None:
    """Calls `look` for ever. `complain` is told of an error of the kinds `wrong`, but of one in a row only once."""
    told = ""
    while True:
        await asyncio.sleep(every_s)
        try:
            await look()
            told = ""
        except wrong as error:
            if told != (told := repr(error)):
                complain(error)
