"""Begins requests: so many in each turn of the event loop, in the order in which they came; the others wait.

Else one turn would take as long as all requests that came during the turn before, and whoever asks /health would wait
for two of them. Knows when requests came; nothing of what they are.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from time import perf_counter

from app.errors import Overloaded
from app.runtime.byte_budgets import Place, Room
from app.runtime.event_loop_lag import LoopLag

TURN_S = 0.02
"""A turn should take no longer: who connects anew and asks /health has an answer after five turns."""
MOST, FEWEST = 64, 4
"""Requests begun in one turn."""
SHORT_S = 0.01
"""A lag that is no longer changes no figure."""
LATEST_S = 1.0
"""A request that would have to wait longer than this before it begins is refused."""


class Unread(Place):
    """What came of a body and nobody has read yet. Where there is no room for it, the rest is not kept either."""

    __slots__ = "_is_cut", "is_whole"

    def __init__(self, room: Room) -> None:
        super().__init__(room)
        self._is_cut = False
        self.is_whole = False
        """Whether all that is to come has come."""

    def keeps(self, size: int) -> bool:
        """Whether there is room for `size` bytes more, which it then takes."""
        if self._is_cut or not self.room.has(size, self.taken):
            self._is_cut = True
            return False
        self.room.add(size)
        self.taken += size
        return True

    def read(self, size: int) -> None:
        """`size` bytes of it. Raises Overloaded if that is not the whole, since there was no room for it."""
        size = min(size, self.taken)
        self.room.taken -= size
        self.taken -= size
        if self._is_cut:
            raise self.room.full()


class Intake:
    """The requests that wait to begin, and what has come of bodies that nobody reads yet, in the room `unread`.

    As long as no more than MOST come within the time of a turn, each begins when it comes. Else, how many begin in a
    turn follows from how long the turns take: one more after each that was short, half as many after one that was not.
    """

    def __init__(self, lag: LoopLag, unread: Room, turn_s: float = TURN_S, latest_s: float = LATEST_S) -> None:
        """`lag`: the event loop's, which delays all of them."""
        self.unread, self.turn_s, self.latest_s = unread, turn_s, latest_s
        self.at_once = MOST
        self.lag = lag
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._begun = 0
        self._turn_began = 0.0

    @property
    def delay_s(self) -> float:
        """How long a request that comes now will wait before it begins, in seconds."""
        if not self._waiting:
            return self.lag.lasting_s
        return perf_counter() - self._waiting[0][0] + self.lag.lasting_s

    @property
    def is_late(self) -> bool:
        """Whether what comes may have waited for a while before it is read."""
        return bool(self._waiting) or self.lag.last_s > SHORT_S or self.lag.silent_s > SHORT_S

    def begins(self) -> bool:
        """Whether one more request may begin now; else it has to `wait`."""
        if self._waiting:
            return False
        now = perf_counter()
        if now - self._turn_began > self.turn_s:
            self._turn_began, self._begun, self.at_once = now, 0, MOST
        self._begun += 1
        return self._begun <= self.at_once

    def wait(self, start: Callable[[], None]) -> None:
        """Calls `start` in a later turn of the event loop."""
        now = perf_counter()
        if not self._waiting:
            self._next_turn(now)
        self._waiting.append((now, start))

    def check(self, delay_s: float) -> None:
        """Raises Overloaded if a request that was to be delayed for so long came too late."""
        if delay_s > self.latest_s:
            seconds = max(1, math.ceil(delay_s))
            raise Overloaded(f"Too many requests wait to be read. Retry after {seconds} s.", retry_after_s=seconds)

    def _next_turn(self, now: float) -> None:
        self._turn_began = now
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        now = perf_counter()
        was_long = now - self._turn_began > self.turn_s
        self.at_once = max(FEWEST, self.at_once // 2) if was_long else min(MOST, self.at_once + 1)
        self._begun = min(self.at_once, len(self._waiting))
        for _ in range(self._begun):
            self._waiting.popleft()[1]()
        if self._waiting:
            self._next_turn(now)
        else:
            self._turn_began = now
