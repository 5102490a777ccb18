"""What the instances of the service share: rates, counters, records and leases. The interface of both stores.

`app.storage.store_memory` keeps it in this process, for a service of one instance; `app.storage.store_valkey` in a
server of Valkey or Redis. All times are those of the store, so that no instance's clock matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from app.runtime.rate_limits import Meters

Scarce = Literal["records", "bytes"]


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
    """There is no room for a record, even if those are dropped that may be."""

    def __init__(self, scarce: Scarce) -> None:
        super().__init__(scarce)
        self.scarce = scarce
        """Which limit of the kind would be exceeded."""


class Store(Meters, Protocol):
    """All methods that are coroutines raise StoreUnavailable, except `start`, `stop`, `take` and `used`: those fall
    back to what this instance alone knows."""

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
