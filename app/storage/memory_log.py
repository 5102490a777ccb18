"""What both logs of translation memories share: how much is read or written in one step, and what a pair counts as."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from app.storage.protocols import MemoryLog, MemorySize, Part, Scope, StoreFull
from app.text.memory_index import Pair

MAX_REMOVED = 10_000
"""How many removed pairs of a scope are remembered, by their ids alone; who is behind by more reads all pairs again."""
MAX_TOGETHER, MAX_BYTES_TOGETHER = 500, 1 << 20
"""Pairs that are written or read in one step, so that others' steps come in between."""
PAIR_BYTES = 64
"""What a pair counts as besides its texts."""


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


def check_growth(limits: MemorySize, held: MemorySize, pairs: int, size: int) -> None:
    """Raises StoreFull if so many pairs and bytes more are over a limit."""
    if pairs > 0 and held.pairs + pairs > limits.pairs:
        raise StoreFull("pairs")
    if size > 0 and held.size + size > limits.size:
        raise StoreFull("bytes")


async def put_in_parts(log: MemoryLog, scope: Scope, parts: Sequence[Part]) -> int:
    """Writes one part after another; returns the new version when all are safe. If it is interrupted, some may have
    been written.

    Raises StoreFull, before anything is written if there is no room. If others take the room meanwhile, the pairs that
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
        except StoreFull:
            for ids in written:
                await log.remove(scope, ids)
            raise
        written.append(new)
    return version
