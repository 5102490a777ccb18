"""Translation memories in the store that several instances share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec

from app.services.memory_log import (
    MAX_REMOVED,
    MAX_TOGETHER,
    Change,
    Changes,
    Limits,
    MemoryFull,
    Scope,
    check_growth,
    parts_of,
    size_of,
)
from app.services.memory_scripts import CHANGES, CLEAR, GROWTH, PUT, REMOVE, VERSIONS
from app.services.store_valkey import ValkeyStore
from app.text.memory_index import Pair


class ValkeyLog:
    """The log in the store, which starts and stops by itself. How safe a pair is depends on the server: with
    `appendonly yes` and `appendfsync always`, it is on the disk when it is acknowledged."""

    def __init__(self, store: ValkeyStore, limits: Limits) -> None:
        self._store, self.limits = store, limits

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        answer = await self._store.run(VERSIONS, "memory", f"{owner}/")
        found: dict[tuple[str, str], int] = {}
        for direction, version in zip(answer[::2], answer[1::2], strict=True):
            source, _, target = direction.decode().partition("/")
            found[source, target] = int(version)
        return found

    async def changes(self, scope: Scope, since: int) -> AsyncGenerator[Changes, None]:
        version, is_complete, *rest = await self._store.run(CHANGES, "memory", _name(scope), since)
        for start in range(0, len(rest) or 1, 3 * MAX_TOGETHER):
            part = rest[start : start + 3 * MAX_TOGETHER]
            changes = [
                Change(int(float(changed)), id.decode(), msgspec.json.decode(pair, type=Pair) if pair else None)
                for changed, id, pair in zip(part[::3], part[1::3], part[2::3], strict=True)
            ]
            yield Changes(int(version), bool(is_complete), changes)
            await asyncio.sleep(0)

    async def put(self, scope: Scope, pairs: Sequence[tuple[str, Pair]]) -> int:
        parts = list(parts_of(pairs))
        if len(parts) > 1:  # each part is checked again when it is written
            number = size = 0
            for part in parts:
                sizes = [each for id, pair in part for each in (id, size_of(pair))]
                more, bytes_more, *held = await self._store.run(GROWTH, "memory", _name(scope), *sizes)
                number, size = number + more, size + bytes_more
            check_growth(self.limits, number + held[0], size + held[1])
        for part in parts:
            values = [each for id, pair in part for each in (id, msgspec.json.encode(pair), size_of(pair))]
            answer: bytes = await self._store.run(PUT, "memory", _name(scope), *self.limits, *values)
            if not answer.isdigit():
                raise MemoryFull(answer.decode())
        return int(answer)

    async def remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        number, version = await self._store.run(REMOVE, "memory", _name(scope), MAX_REMOVED, *dict.fromkeys(text_ids))
        return number, int(version)

    async def clear(self, scope: Scope) -> tuple[int, int]:
        number, version = await self._store.run(CLEAR, "memory", _name(scope))
        return number, int(version)


def _name(scope: Scope) -> str:
    """No name of a key contains a slash."""
    return "/".join(scope)
