"""Clients, and their rate limits, such as "600/minute"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from cachetools import LRUCache
from msgspec import Struct

from app.errors import NotAllowed, TooManyCharacters, TooManyRequests

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


class Account(Struct, frozen=True):
    """Where a client's characters are charged, for work that another instance may do."""

    identity: str
    rate: str | None


class Client:
    """A client: the holder of a key, or everyone at an address."""

    def __init__(
        self,
        name: str,
        identity: str,
        meters: Meters,
        requests: Rate | None = None,
        characters: Rate | None = None,
        admin: bool = False,
        address: str = "",
    ) -> None:
        """`requests` and `characters`: its limits."""
        self.name = name
        """The key's name; "" without a key."""
        self.identity = identity
        """Names the client's meters; a hash, which does not show an address to whoever reads the store. All clients
        without keys and rates have one together."""
        self.scheduled_as = address or identity
        """Whose turn it is in the engine; nobody stores it."""
        self.is_admin = admin
        """Whether its key is marked `admin`."""
        self._meters, self._requests, self._rate = meters, requests, characters

    async def count_request(self) -> None:
        """Charges a request to the client's limit. Raises TooManyRequests."""
        rate = self._requests
        if rate and (wait := await self._meters.take(f"requests:{self.identity}", rate, 1)):
            raise TooManyRequests(_over_limit(rate, "requests", wait), retry_after_s=wait)

    async def charge(self, characters: int) -> None:
        """Charges that many characters to the client's limit. Raises TooManyCharacters."""
        if self._rate is None:
            self._meters.count(f"characters:{self.identity}", characters)
            return
        if characters > self._rate.amount:
            raise TooManyCharacters(f"One request with {characters} characters exceeds the limit of {self._rate.text}.")
        if wait := await self._meters.take(f"characters:{self.identity}", self._rate, characters):
            raise TooManyCharacters(_over_limit(self._rate, "characters", wait), retry_after_s=wait)

    def check_admin(self) -> None:
        """Raises NotAllowed."""
        if not self.is_admin:
            raise NotAllowed(NotAllowed.example)

    async def characters(self) -> int:
        """Characters charged and not yet restored; without a limit, all charged since the service first saw the
        client. Raises StoreUnavailable."""
        meter = f"characters:{self.identity}"
        return await (self._meters.used(meter, self._rate) if self._rate else self._meters.counted(meter))

    @property
    def character_limit(self) -> int | None:
        """The limit on `characters`."""
        return self._rate.amount if self._rate else None

    @property
    def account(self) -> Account:
        return Account(self.identity, self._rate.text if self._rate else None)


def _over_limit(rate: Rate, what: str, wait: float) -> str:
    return f"Over the limit of {rate.text} {what}. Retry after {max(1, math.ceil(wait))} s."
