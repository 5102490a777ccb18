"""How much a client may ask for in a time, such as "600/minute". Knows neither requests nor who the clients are."""

from __future__ import annotations

from dataclasses import dataclass, field

from throttled import RateLimiterType, Throttled
from throttled.exceptions import BaseThrottledError
from throttled.rate_limiter import Quota
from throttled.rate_limiter.quota_parser import parse
from throttled.store import MemoryStore

MAX_CLIENTS = 100_000
"""Those that have been away longest are forgotten beyond this, so that nobody fills the memory with addresses."""


@dataclass(frozen=True)
class Rate:
    """`text` is "600/minute", or with more at once allowed for, "10/second burst 100"."""

    text: str
    quota: Quota = field(compare=False)

    @classmethod
    def read(cls, text: str) -> Rate:
        """Raises ValueError."""
        try:
            (quota,) = parse(text)
            if quota.burst < 1:
                raise ValueError("nothing ever")
        except (BaseThrottledError, ValueError, OverflowError):
            raise ValueError(f"{text!r} is not a rate such as 600/minute, 1000000/day or 10/second") from None
        return cls(text, quota)

    @property
    def amount(self) -> int:
        """As much can be had at once."""
        return self.quota.burst


class Meter:
    """Counts what each client takes of one kind, by the generic cell rate algorithm: what was taken comes back evenly.

    (ATM Forum Traffic Management 4.0, section 4.4.2.)
    """

    def __init__(self) -> None:
        self._store = MemoryStore(options={"MAX_SIZE": MAX_CLIENTS})
        self._by_rate: dict[Rate, Throttled] = {}

    def take(self, client: str, rate: Rate, amount: int) -> float:
        """Takes `amount` if there is as much, and then returns 0.0; else the seconds after which there will be."""
        result = self._throttled(rate).limit(client, amount)
        return max(result.state.retry_after, 1e-3) if result.limited else 0.0

    def taken(self, client: str, rate: Rate) -> int:
        """How much of `rate.amount` has not come back yet."""
        state = self._throttled(rate).peek(client)
        return state.limit - state.remaining

    def _throttled(self, rate: Rate) -> Throttled:
        if rate not in self._by_rate:
            self._by_rate[rate] = Throttled(using=RateLimiterType.GCRA.value, quota=rate.quota, store=self._store)
        return self._by_rate[rate]
