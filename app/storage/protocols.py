"""The interfaces of what keeps state: the store, for all that instances share, and the log of translation memories.

A store is in this process, for a service of one instance, or in a server of Valkey or Redis. A log is in a file, or in
the store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from app.runtime.rate_limits import Meters
from app.text.memory_index import Pair


@dataclass(frozen=True)
class Kind:
    """A kind of records, with limits that hold for all instances together."""

    name: str
    max_records: int
    max_bytes: int
    life_s: float | None = None
    """A record expires this long after it is created, however often it changes; None: never."""


class Record(NamedTuple):
    """A record: named fields, and a version that every change raises."""

    version: int
    fields: Mapping[str, bytes]


class StoreFull(Exception):
    """There is no room for a record, even if those are dropped that may be; or for pairs of a translation memory."""

    def __init__(self, scarce: str) -> None:
        super().__init__(scarce)
        self.scarce = scarce
        """Which limit would be exceeded: "records", "pairs" or "bytes"."""


class Store(Meters, Protocol):
    """Rates, counters, records and leases. All times are those of the store, so that no instance's clock matters.

    All coroutines raise StoreUnavailable, except `start`, `stop`, `take` and `used`: those fall back to what this
    instance alone knows.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other instances may use it too."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def check(self) -> None:
        """Raises StoreUnavailable if the store is known to be unavailable."""

    # ---- Records

    async def put(
        self,
        kind: Kind,
        id: str,
        fields: Mapping[str, bytes | None],
        size: int,
        replaces: int = 0,
        keep_s: float | None = None,
    ) -> int | None:
        """Writes these fields of a record, all or none, and returns its new version; other fields stay as they are.

        A field that is None is removed. `size`: the bytes that the whole record then counts as. `replaces`: the
        version that the change is based on, 0 for a new record; if the record has another one by now, nothing is
        written and the result is None. `keep_s`: from when on the record may be dropped to make room for others; None:
        never. Raises StoreFull, and then drops nothing.
        """

    async def get(self, kind: Kind, id: str, *fields: str) -> Record | None:
        """The record with those of the `fields` that it has; None if there is no such record."""

    async def version(self, kind: Kind, id: str) -> int:
        """The record's version; 0 if there is no such record. Costs less than `get`."""

    async def versions(self, kind: Kind) -> dict[str, int]:
        """The versions of all records of the kind, by id."""

    async def delete(self, kind: Kind, id: str) -> bool:
        """Deletes the record with its lease, and returns whether it existed."""

    # ---- Leases: who works on a record

    async def offer(self, kind: Kind, id: str, holder: str = "") -> None:
        """Lets anyone claim the record: a new one, or one that `holder` gives back."""

    async def claim(self, kind: Kind, holder: str, lease_s: float) -> str | None:
        """Leases the record that has waited longest to `holder`, and returns its id; None if there is none.

        Records wait that were offered, and those whose lease has lapsed because its holder did not renew it.
        """

    async def renew(self, kind: Kind, id: str, holder: str, lease_s: float) -> bool:
        """Extends the lease to `lease_s` from now. False if another holder has it, or the record is gone."""

    async def withdraw(self, kind: Kind, id: str, holder: str) -> None:
        """Ends the lease of `holder`; nobody can claim the record any more."""


# ---- Translation memories


class Scope(NamedTuple):
    """The memory of one owner in one direction."""

    owner: str
    """The name of the API key; "" without keys."""
    source: str
    target: str


class MemorySize(NamedTuple):
    """What all scopes together may hold, or do hold."""

    pairs: int
    size: int
    """In bytes of UTF-8."""


Part = Sequence[tuple[str, Pair]]
"""Pairs that are written in one step, each with its text's id; the ids are distinct."""


class Change(NamedTuple):
    """What happened to a pair in a version; several changes may have one version."""

    version: int
    text_id: str
    """What `text_id` returns for the pair's normalised text."""
    pair: Pair | None
    """None: it was removed."""


class Changes(NamedTuple):
    """A part of what changed in a scope."""

    version: int
    """The scope's version after all changes."""
    is_complete: bool
    """Whether the parts are all pairs of the scope, rather than what changed since a version."""
    changes: Sequence[Change]
    """In order of version."""


class MemoryLog(Protocol):
    """Where the pairs of translation memories are kept. Every change of a scope raises its version, and the log tells
    what changed since a version, so that each instance keeps an index up to date.

    All methods raise Unavailable if the log cannot be read or written.
    """

    limits: MemorySize
    pause_s: float
    """Between two parts of a long write, for other processes that write."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        """The version of each direction of an owner that has ever had a pair."""

    def changes(self, scope: Scope, since: int) -> AsyncGenerator[Changes, None]:
        """What changed after version `since`; all pairs if the log does not know any more. One part at least."""

    async def growth(self, scope: Scope, part: Part) -> tuple[MemorySize, MemorySize]:
        """How much more the scope would hold with the part, and what all scopes hold."""

    async def put(self, scope: Scope, part: Part) -> tuple[int, list[str]]:
        """Writes all pairs of the part or none; returns the new version when they are safe, and the ids that are new.

        A pair replaces one with the same id. Raises StoreFull.
        """

    async def remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        """Erases the pairs with these ids; returns the number of those that existed, and the version."""

    async def clear(self, scope: Scope) -> tuple[int, int]:
        """Erases all pairs; returns their number, and the version."""
