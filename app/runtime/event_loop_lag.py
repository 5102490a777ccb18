"""Measures how late the event loop runs: a delay that affects every request and shows in no queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

INTERVAL_S = 0.1
"""The interval between measurements."""
SUSTAINED_SAMPLES = 3
"""A lag is sustained if this many consecutive measurements show it; a single one may be a pause of the machine."""


class LoopLag:
    """Measures in seconds how late a timer of the event loop fires. Calls `observe` with each measurement.

    Other threads may read `current_s`.
    """

    def __init__(self, observe: Callable[[float], None] = lambda lag_s: None, interval_s: float = INTERVAL_S) -> None:
        self._observe, self._interval_s = observe, interval_s
        self._samples = deque([0.0] * SUSTAINED_SAMPLES, SUSTAINED_SAMPLES)
        self.last_s = self.sustained_s = 0.0
        """The last measurement, and the minimum of the last few."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = monotonic()

    def start(self) -> None:
        """Starts on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._wait()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    @property
    def current_s(self) -> float:
        """How late the timer is right now: the lower bound of the next measurement."""
        return max(0.0, monotonic() - self._due)

    def _wait(self) -> None:
        self._due = monotonic() + self._interval_s
        self._timer = self._loop.call_later(self._interval_s, self._measure)

    def _measure(self) -> None:
        self.last_s = self.current_s
        self._samples.append(self.last_s)
        self.sustained_s = min(self._samples)
        self._observe(self.last_s)
        self._wait()
