"""Rate limits per client, such as "600/minute"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from cachetools import LRUCache

MAX_CLIENTS = 100_000
"""Beyond this, the limiter forgets the clients that were idle longest, so that addresses cannot fill the memory."""
_RATE = re.compile(r"\s*(\d{1,15})\s*(?:/|per\s)\s*([a-z]+)(?:\s+burst\s+(\d{1,15}))?\s*", re.ASCII | re.IGNORECASE)
_UNITS = {
    "s sec secs second seconds": 1,
    "m min mins minute minutes": 60,
    "h hr hrs hour hours": 3_600,
    "d day days": 86_400,
    "w wk wks week weeks": 604_800,
}
_SECONDS = {name: seconds for names, seconds in _UNITS.items() for name in names.split()}


@dataclass(frozen=True)
class Rate:
    """A rate: `text` is "600/minute", or with a burst size, "10/second burst 100"."""

    text: str
    amount: int
    """The maximum available at a time."""
    interval_s: float
    """The time in which one is restored."""

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Raises ValueError."""
        found = _RATE.fullmatch(text)
        seconds = _SECONDS.get(found[2].lower()) if found else None
        if found is None or seconds is None or not int(found[1]) or not (amount := int(found[3] or found[1])):
            raise ValueError(f"{text!r} is not a rate such as 600/minute, 1000000/day or 10/second")
        return cls(text, amount, seconds / int(found[1]))


class Meters(Protocol):
    """How much each client has used, by the name of a meter or a counter."""

    async def take(self, meter: str, rate: Rate, amount: int) -> float:
        """Takes `amount` and returns 0.0 if that much is available; otherwise returns the seconds until it will be."""

    async def used(self, meter: str, rate: Rate) -> int:
        """How much of `rate.amount` is not yet restored."""

    def count(self, counter: str, amount: int) -> None:
        """Adds to a counter; other instances see it within about a second."""

    async def counted(self, counter: str) -> int:
        """The counter's value, with all that this instance has added. Raises StoreUnavailable."""


class RateLimiter:
    """Meters each client's usage with the generic cell rate algorithm: used amounts are restored at a steady rate.

    (ATM Forum Traffic Management 4.0, section 4.4.2.) `app.storage.scripts` has the same for several instances.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock`: in seconds."""
        self._clock = clock
        self._arrivals: LRUCache[str, float] = LRUCache(MAX_CLIENTS)
        """When each client's usage will be restored: the theoretical arrival time of its next request."""

    def take(self, client: str, rate: Rate, amount: int) -> float:
        """Takes `amount` and returns 0.0 if that much is available; otherwise returns the seconds until it will be."""
        now = self._clock()
        arrival = max(now, self._arrivals.get(client, now))
        if amount > rate.amount + math.floor((now - arrival) / rate.interval_s):
            return max(arrival + (amount - rate.amount) * rate.interval_s - now, 1e-3)
        self._arrivals[client] = arrival + amount * rate.interval_s
        return 0.0

    def used(self, client: str, rate: Rate) -> int:
        """How much of `rate.amount` is not yet restored."""
        now = self._clock()
        arrival = max(now, self._arrivals.get(client, now))
        return min(rate.amount, -math.floor((now - arrival) / rate.interval_s))
