"""Starts a limited number of requests per turn of the event loop, in order of arrival; the others wait.

Without it, one turn would take as long as all requests that arrived during the previous turn, and /health would wait
for two turns.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from time import perf_counter

from app.errors import Overloaded
from app.runtime.byte_budgets import ByteBudget, Reservation
from app.runtime.event_loop_lag import LoopLag

TURN_S = 0.02
"""The target length of a turn. /health on a new connection takes five turns."""
MAX_PER_TURN, MIN_PER_TURN = 64, 4
"""Maximum and minimum number of requests to start in one turn."""
MIN_LAG_S = 0.01
"""A shorter lag changes nothing."""
MAX_DELAY_S = 1.0
"""Requests that would wait longer than this before they start are refused, unless the settings let them wait longer."""


class UnreadBody(Reservation):
    """What has arrived of a body that is not being read yet. If the budget is full, the rest is dropped."""

    __slots__ = "_is_cut", "is_complete"

    def __init__(self, budget: ByteBudget) -> None:
        super().__init__(budget)
        self._is_cut = False
        self.is_complete = False
        """Whether the body has arrived completely."""

    def try_reserve(self, size: int) -> bool:
        """Reserves `size` more bytes. Returns False if the budget does not allow it."""
        if self._is_cut or not self.budget.fits(size, self.size):
            self._is_cut = True
            return False
        self.budget.add(size)
        self.size += size
        return True

    def read(self, size: int) -> None:
        """Releases `size` bytes that the application reads. Raises Overloaded if part of the body was dropped."""
        size = min(size, self.size)
        self.budget.used -= size
        self.size -= size
        if self._is_cut:
            raise self.budget.overloaded()


class RequestQueue:
    """The queue of requests that wait to start; unread bodies count against the budget `unread`.

    As long as at most MAX_PER_TURN requests arrive within one turn, each starts on arrival. Otherwise the number per
    turn adapts to the length of the turns: one more after a short turn, half as many after a long one.
    """

    def __init__(
        self, lag: LoopLag, unread: ByteBudget, max_delay_s: float = MAX_DELAY_S, turn_s: float = TURN_S
    ) -> None:
        """`lag`: that of the event loop, which delays every request."""
        self.unread, self.turn_s, self.max_delay_s = unread, turn_s, max_delay_s
        self.max_starts = MAX_PER_TURN
        self.lag = lag
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._started = 0
        self._turn_began = 0.0

    @property
    def delay_s(self) -> float:
        """The predicted delay, in seconds, before a request that arrives now starts."""
        if not self._waiting:
            return self.lag.sustained_s
        return perf_counter() - self._waiting[0][0] + self.lag.sustained_s

    @property
    def is_late(self) -> bool:
        """Whether arriving data may have waited for a while before it is read."""
        return bool(self._waiting) or self.lag.last_s > MIN_LAG_S or self.lag.current_s > MIN_LAG_S

    def try_start(self) -> bool:
        """Counts a request as started in this turn. Returns False if it has to `wait` instead."""
        if self._waiting:
            return False
        now = perf_counter()
        if now - self._turn_began > self.turn_s:
            self._turn_began, self._started, self.max_starts = now, 0, MAX_PER_TURN
        self._started += 1
        return self._started <= self.max_starts

    def wait(self, start: Callable[[], None]) -> None:
        """Calls `start` in a later turn of the event loop."""
        now = perf_counter()
        if not self._waiting:
            self._next_turn(now)
        self._waiting.append((now, start))

    def check(self, delay_s: float) -> None:
        """Raises Overloaded if a request with this predicted delay should be refused."""
        if delay_s > self.max_delay_s:
            seconds = max(1, math.ceil(delay_s))
            raise Overloaded(
                f"Too many requests are waiting to be read. Retry after {seconds} s.", retry_after_s=seconds
            )

    def _next_turn(self, now: float) -> None:
        self._turn_began = now
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        now = perf_counter()
        was_long = now - self._turn_began > self.turn_s
        self.max_starts = (
            max(MIN_PER_TURN, self.max_starts // 2) if was_long else min(MAX_PER_TURN, self.max_starts + 1)
        )
        self._started = min(self.max_starts, len(self._waiting))
        for _ in range(self._started):
            self._waiting.popleft()[1]()
        if self._waiting:
            self._next_turn(now)
        else:
            self._turn_began = now
