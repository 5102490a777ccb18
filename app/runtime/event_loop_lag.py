"""How late the event loop is with what is due: what everybody waits for, and no queue shows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

EVERY_S = 0.1
"""A timer measures so often."""
LASTING = 3
"""A lag lasts if so many measurements on end show it: one of them may be a pause of the machine, which is over."""


class LoopLag:
    """Seconds by which a timer of the event loop is late. `observe` is told of each measurement.

    `silent_s` may be read by other threads.
    """

    def __init__(self, observe: Callable[[float], None] = lambda lag_s: None, every_s: float = EVERY_S) -> None:
        self._observe, self._every_s = observe, every_s
        self._measured = deque([0.0] * LASTING, LASTING)
        self.last_s = self.lasting_s = 0.0
        """The last measurement, and the least of the last few."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = monotonic()

    def start(self) -> None:
        """On the event loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._wait()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    @property
    def silent_s(self) -> float:
        """How long the event loop has been late up to now."""
        return max(0.0, monotonic() - self._due)

    def _wait(self) -> None:
        self._due = monotonic() + self._every_s
        self._timer = self._loop.call_later(self._every_s, self._measure)

    def _measure(self) -> None:
        self.last_s = self.silent_s
        self._measured.append(self.last_s)
        self.lasting_s = min(self._measured)
        self._observe(self.last_s)
        self._wait()
