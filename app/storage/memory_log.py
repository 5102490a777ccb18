"""Where the pairs of translation memories are kept: the interface of both logs, one over a file and one over a store.

A scope is the memory of one API key in one direction. Every change of a scope raises its version, and a log tells what
changed since a version, so that each instance keeps an index up to date.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from app.text.memory_index import Pair

MAX_REMOVED = 10_000
"""How many removed pairs of a scope are remembered, by their ids alone; who is behind by more reads all pairs again."""
MAX_TOGETHER, MAX_BYTES_TOGETHER = 500, 1 << 20
"""Pairs that are written or read in one step, so that others' steps come in between."""


class Scope(NamedTuple):
    """The memory of one owner in one direction."""

    owner: str
    """The name of the API key; "" without keys."""
    source: str
    target: str


class Limits(NamedTuple):
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


class MemoryFull(Exception):
    """The pairs would be over a limit of the memory."""

    def __init__(self, scarce: str) -> None:
        super().__init__(scarce)
        self.scarce = scarce
        """"pairs" or "bytes"."""


class MemoryLog(Protocol):
    """All methods raise Unavailable if the log cannot be read or written."""

    limits: Limits
    pause_s: float
    """Between two parts of a long write, for other processes that write."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        """The version of each direction of an owner that has ever had a pair."""

    def changes(self, scope: Scope, since: int) -> AsyncGenerator[Changes, None]:
        """What changed after version `since`; all pairs if the log does not know any more. One part at least."""

    async def growth(self, scope: Scope, part: Part) -> tuple[Limits, Limits]:
        """How much more the scope would hold with the part, and what all scopes hold."""

    async def put(self, scope: Scope, part: Part) -> tuple[int, list[str]]:
        """Writes all pairs of the part or none; returns the new version when they are safe, and the ids that are new.

        A pair replaces one with the same id. Raises MemoryFull.
        """

    async def remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        """Erases the pairs with these ids; returns the number of those that existed, and the version."""

    async def clear(self, scope: Scope) -> tuple[int, int]:
        """Erases all pairs; returns their number, and the version."""


PAIR_BYTES = 64


def size_of(pair: Pair) -> int:
    """The bytes that a pair counts as."""
    return len(pair.source.encode()) + len(pair.target.encode()) + PAIR_BYTES


def parts_of(pairs: Mapping[str, Pair]) -> Iterator[Part]:
    """Pairs by their texts' ids, in parts; at least one."""
    part, size = list[tuple[str, Pair]](), 0
    for id, pair in pairs.items():
        added = size_of(pair)
        if part and (len(part) == MAX_TOGETHER or size + added > MAX_BYTES_TOGETHER):
            yield part
            part, size = [], 0
        part.append((id, pair))
        size += added
    yield part


def check_growth(limits: Limits, held: Limits, pairs: int, size: int) -> None:
    """Raises MemoryFull if so many pairs and bytes more are over a limit."""
    if pairs > 0 and held.pairs + pairs > limits.pairs:
        raise MemoryFull("pairs")
    if size > 0 and held.size + size > limits.size:
        raise MemoryFull("bytes")


async def put_in_parts(log: MemoryLog, scope: Scope, parts: Sequence[Part]) -> int:
    """Writes one part after another; returns the new version when all are safe. If it is interrupted, some may have
    been written.

    Raises MemoryFull, before anything is written if there is no room. If others take the room meanwhile, the pairs that
    were new are erased again; those that replaced one stay.
    """
    if len(parts) > 1:
        growth, held = zip(*[await log.growth(scope, part) for part in parts], strict=True)
        check_growth(log.limits, held[-1], *map(sum, zip(*growth, strict=True)))
    written = list[Sequence[str]]()
    for part in parts:
        if written:
            await asyncio.sleep(log.pause_s)
        try:
            version, new = await log.put(scope, part)
        except MemoryFull:
            for ids in written:
                await log.remove(scope, ids)
            raise
        written.append(new)
    return version
