"""Translation memories in the store that several instances share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from app.storage import lua_scripts
from app.storage.memory_log import MAX_BYTES_TOGETHER, MAX_REMOVED, MAX_TOGETHER, size_of
from app.storage.protocols import Change, Changes, MemorySize, Part, Scope, StoreFull
from app.storage.store_valkey import ValkeyStore
from app.text.memory_index import Pair


class ValkeyLog:
    """The log in the store, which starts and stops by itself. How safe a pair is depends on the server: with
    `appendonly yes` and `appendfsync always`, it is on the disk when it is acknowledged."""

    pause_s = 0.0

    def __init__(self, store: ValkeyStore, limits: MemorySize) -> None:
        self._store, self.limits = store, limits

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        answer = await self._store.run(lua_scripts.MEMORY_VERSIONS, "memory", f"{owner}/")
        found: dict[tuple[str, str], int] = {}
        for direction, version in zip(answer[::2], answer[1::2], strict=True):
            source, _, target = direction.decode().partition("/")
            found[source, target] = int(version)
        return found

    async def changes(self, scope: Scope, since: int) -> AsyncGenerator[Changes, None]:
        began, is_complete, at = 0, False, str(since).encode()
        while at:
            version, known_since, is_all, at, *rest = await self._run(
                lua_scripts.MEMORY_CHANGES, scope, at, began, MAX_TOGETHER, MAX_BYTES_TOGETHER
            )
            if began and int(known_since) > began:  # some removals are forgotten: nothing that was read counts
                yield Changes(0, False, ())
                return
            began, is_complete = began or int(version), is_complete or bool(is_all)
            changes = [
                Change(int(float(changed)), id.decode(), msgspec.json.decode(pair, type=Pair) if pair else None)
                for changed, id, pair in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
            ]
            yield Changes(int(version), is_complete, changes)

    async def growth(self, scope: Scope, part: Part) -> tuple[MemorySize, MemorySize]:
        sizes = [each for id, pair in part for each in (id, size_of(pair))]
        pairs, size, *held = await self._run(lua_scripts.MEMORY_GROWTH, scope, *sizes)
        return MemorySize(pairs, size), MemorySize(*held)

    async def put(self, scope: Scope, part: Part) -> tuple[int, list[str]]:
        values = [each for id, pair in part for each in (id, msgspec.json.encode(pair), size_of(pair))]
        answer, *new = await self._run(lua_scripts.MEMORY_PUT, scope, *self.limits, *values)
        if not answer.isdigit():
            raise StoreFull(answer.decode())
        return int(answer), [id.decode() for id in new]

    async def remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        number, version = await self._run(lua_scripts.MEMORY_REMOVE, scope, MAX_REMOVED, *dict.fromkeys(text_ids))
        return number, int(version)

    async def clear(self, scope: Scope) -> tuple[int, int]:
        number, version = await self._run(lua_scripts.MEMORY_CLEAR, scope)
        return number, int(version)

    async def _run(self, script: lua_scripts.Script, scope: Scope, *arguments: str | bytes | int) -> Any:
        return await self._store.run(script, "memory", "/".join(scope), *arguments)  # no key's name contains a slash
