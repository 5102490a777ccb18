"""The store of a service with one instance, in its memory. A stop loses all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from cachetools import LRUCache

from app.runtime.rate_limits import MAX_CLIENTS, Rate, RateLimiter
from app.storage.protocols import Kind, Record, StoreFull


@dataclass
class _Entry:
    """A record. Times are in seconds, on the store's clock."""

    expires_at: float
    version: int = 0
    fields: dict[str, bytes] = field(default_factory=dict)
    size: int = 0
    holder: str = ""
    claimable_at: float = inf
    """When it was offered, or the lease of its holder lapses."""


@dataclass
class _Records:
    """The records of one kind."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    """Oldest first, so those that expire next come first."""
    droppable: dict[str, float] = field(default_factory=dict)
    """From when on a record may be dropped; the earliest first, since the time from a change until then is the same for
    all records of a kind."""
    held_bytes: int = 0

    def remove(self, id: str) -> bool:
        entry = self.entries.pop(id, None)
        self.droppable.pop(id, None)
        self.held_bytes -= entry.size if entry else 0
        return entry is not None

    def purge(self, now: float) -> None:
        """Removes what has expired."""
        while self.entries:
            id, entry = next(iter(self.entries.items()))
            if entry.expires_at > now:
                return
            self.remove(id)

    def make_room(self, kind: Kind, id: str, size: int, now: float) -> None:
        """Drops what may be dropped until the record fits. Raises StoreFull, and then drops nothing."""
        known = self.entries.get(id)
        number = len(self.entries) + (known is None)
        held = self.held_bytes - (known.size if known else 0) + size
        dropped: list[str] = []
        candidates = iter(self.droppable.items())
        while number > kind.max_records or held > kind.max_bytes:
            other, since = next(candidates, ("", inf))
            if since > now:
                raise StoreFull("records" if number > kind.max_records else "bytes")
            if other != id:
                dropped.append(other)
                number, held = number - 1, held - self.entries[other].size
        for other in dropped:
            self.remove(other)


class LocalStore:
    """Never unavailable, and no method waits for anything."""

    is_shared = False

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock`: in seconds."""
        self._clock = clock
        self._limiter = RateLimiter()
        self._counters: LRUCache[str, int] = LRUCache(MAX_CLIENTS)
        self._kinds: dict[str, _Records] = {}
        self._last_version = 0

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def check(self) -> None:
        pass

    async def take(self, meter: str, rate: Rate, amount: int) -> float:
        return self._limiter.take(meter, rate, amount)

    async def used(self, meter: str, rate: Rate) -> int:
        return self._limiter.used(meter, rate)

    def count(self, counter: str, amount: int) -> None:
        self._counters[counter] = self._counters.get(counter, 0) + amount

    async def counted(self, counter: str) -> int:
        return self._counters.get(counter, 0)

    async def put(
        self,
        kind: Kind,
        id: str,
        fields: Mapping[str, bytes | None],
        size: int,
        replaces: int = 0,
        keep_s: float | None = None,
    ) -> int | None:
        records, now = self._records(kind), self._clock()
        entry = records.entries.get(id)
        if (entry.version if entry else 0) != replaces:
            return None
        records.make_room(kind, id, size, now)
        if entry is None:
            entry = records.entries[id] = _Entry(inf if kind.life_s is None else now + kind.life_s)
            if kind.life_s is not None:  # frees the memory, even if nobody asks for the kind again
                asyncio.get_running_loop().call_later(kind.life_s + 1, self._records, kind)
        merged = {**entry.fields, **fields}
        entry.fields = {name: value for name, value in merged.items() if value is not None}
        # Not a number of the record's own: one that is deleted and created again would have an old version.
        self._last_version = entry.version = self._last_version + 1
        records.held_bytes += size - entry.size
        entry.size = size
        records.droppable.pop(id, None)
        if keep_s is not None:
            records.droppable[id] = now + keep_s
        return entry.version

    async def get(self, kind: Kind, id: str, *fields: str) -> Record | None:
        entry = self._records(kind).entries.get(id)
        if entry is None:
            return None
        return Record(entry.version, {name: entry.fields[name] for name in fields if name in entry.fields})

    async def version(self, kind: Kind, id: str) -> int:
        entry = self._records(kind).entries.get(id)
        return entry.version if entry else 0

    async def versions(self, kind: Kind) -> dict[str, int]:
        return {id: entry.version for id, entry in self._records(kind).entries.items()}

    async def delete(self, kind: Kind, id: str) -> bool:
        return self._records(kind).remove(id)

    async def offer(self, kind: Kind, id: str, holder: str = "") -> None:
        if entry := self._held(kind, id, holder):
            entry.holder, entry.claimable_at = "", self._clock()

    async def claim(self, kind: Kind, holder: str, lease_s: float) -> str | None:
        entries, now = self._records(kind).entries, self._clock()
        id = min(entries, key=lambda id: entries[id].claimable_at, default="")
        if not id or entries[id].claimable_at > now:
            return None
        entries[id].holder, entries[id].claimable_at = holder, now + lease_s
        return id

    async def renew(self, kind: Kind, id: str, holder: str, lease_s: float) -> bool:
        entry = self._held(kind, id, holder)
        if entry:
            entry.claimable_at = self._clock() + lease_s
        return entry is not None

    async def withdraw(self, kind: Kind, id: str, holder: str) -> None:
        if entry := self._held(kind, id, holder):
            entry.holder, entry.claimable_at = "", inf

    def _held(self, kind: Kind, id: str, holder: str) -> _Entry | None:
        entry = self._records(kind).entries.get(id)
        return entry if entry and entry.holder == holder else None

    def _records(self, kind: Kind) -> _Records:
        """The records of the kind that have not expired."""
        records = self._kinds.setdefault(kind.name, _Records())
        records.purge(self._clock())
        return records
