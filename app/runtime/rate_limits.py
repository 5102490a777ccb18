"""Rate limits per client, such as "600/minute"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from throttled import RateLimiterType, Throttled
from throttled.exceptions import BaseThrottledError
from throttled.rate_limiter import Quota
from throttled.rate_limiter.quota_parser import parse
from throttled.store import MemoryStore

MAX_CLIENTS = 100_000
"""Beyond this, the limiter forgets the clients that were idle longest, so that addresses cannot fill the memory."""


@dataclass(frozen=True)
class Rate:
    """A rate: `text` is "600/minute", or with a burst size, "10/second burst 100"."""

    text: str
    quota: Quota = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Raises ValueError."""
        try:
            (quota,) = parse(text)
            if quota.burst < 1:
                raise ValueError("allows nothing")
        except (BaseThrottledError, ValueError, OverflowError):
            raise ValueError(f"{text!r} is not a rate such as 600/minute, 1000000/day or 10/second") from None
        return cls(text, quota)

    @property
    def amount(self) -> int:
        """The maximum available at a time."""
        return self.quota.burst


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

    (ATM Forum Traffic Management 4.0, section 4.4.2.)
    """

    def __init__(self) -> None:
        self._store = MemoryStore(options={"MAX_SIZE": MAX_CLIENTS})
        self._by_rate: dict[Rate, Throttled] = {}

    def take(self, client: str, rate: Rate, amount: int) -> float:
        """Takes `amount` and returns 0.0 if that much is available; otherwise returns the seconds until it will be."""
        result = self._throttled(rate).limit(client, amount)
        return max(result.state.retry_after, 1e-3) if result.limited else 0.0

    def used(self, client: str, rate: Rate) -> int:
        """How much of `rate.amount` is not yet restored."""
        state = self._throttled(rate).peek(client)
        return state.limit - state.remaining

    def _throttled(self, rate: Rate) -> Throttled:
        if rate not in self._by_rate:
            self._by_rate[rate] = Throttled(using=RateLimiterType.GCRA.value, quota=rate.quota, store=self._store)
        return self._by_rate[rate]
