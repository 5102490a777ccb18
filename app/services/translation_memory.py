"""Translation memories: pairs of texts that clients have approved, by API key and direction, each with a version.

`app.services.memory_log` keeps them; here is an index of those in use, which every request brings up to date first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.errors import InvalidFields
from app.services.memory_log import Changes, MemoryFull, MemoryLog, Scope
from app.text.memory_index import MemoryIndex, MemorySnapshot, Pair
from app.text.memory_slots import normalise, text_id
from model.languages import AUTO

_MAX_INLINE_CHANGES = 50
"""More changes are applied in a thread: 100,000 take two seconds."""


@dataclass
class _Loaded:
    """The index of a scope in use."""

    index: MemoryIndex
    version: int = 0
    """Of the last change that the index has in full."""
    reading: asyncio.Task[None] | None = None
    """Reads on; of its own, so that no client that leaves interrupts it."""

    @property
    def snapshot(self) -> MemorySnapshot:
        return MemorySnapshot(self.index, self.version)


class TranslationMemory:
    """The memories of all keys. All coroutines raise Unavailable if the log cannot be used."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._loaded: dict[Scope, _Loaded] = {}

    async def start(self) -> None:
        await self._log.start()

    async def stop(self) -> None:
        await self._log.stop()

    async def snapshots(
        self, owner: str, source: str, target: str, with_similar: bool = False
    ) -> Mapping[tuple[str, str], MemorySnapshot]:
        """The owner's memories of a direction, or with AUTO as `source` of all those into `target`, with all that was
        acknowledged before. A direction without any pair is left out.

        `with_similar`: prepares them for `fuzzy`, which would otherwise do so at its first call.
        """
        found: dict[tuple[str, str], MemorySnapshot] = {}
        for (one, other), version in (await self._log.versions(owner)).items():
            if source in (one, AUTO) and target == other:
                found[one, other] = snapshot = await self._up_to_date(Scope(owner, one, other), version)
                if with_similar:
                    await asyncio.to_thread(snapshot.memory.prepare_fuzzy)
        return found

    async def snapshot(self, scope: Scope) -> MemorySnapshot:
        """The memory of one scope, with all that was acknowledged before."""
        found = await self.snapshots(*scope)
        return found.get((scope.source, scope.target)) or MemorySnapshot(MemoryIndex(scope.source, scope.target), 0)

    async def directions(self, owner: str) -> list[MemorySnapshot]:
        """The owner's memories that have a pair."""
        versions = await self._log.versions(owner)
        found = [await self._up_to_date(Scope(owner, *pair), version) for pair, version in versions.items()]
        return [each for each in found if each.memory.count]

    async def put(self, scope: Scope, pairs: Sequence[tuple[str, str]], author: str) -> int:
        """Keeps pairs of a text and its translation; returns the memory's version when they are safe.

        A pair replaces one whose text differs in nothing but white space; of several such pairs, the last one counts.
        Raises InvalidFields.
        """
        by_id = checked_pairs(pairs, time.time(), author)
        try:
            return await self._log.put(scope, list(by_id.items()))
        except MemoryFull as full:
            raise InvalidFields.at(
                "#", f"The translation memory would be over its limit in {full.scarce}: delete pairs first"
            ) from None

    async def remove(self, scope: Scope, text: str) -> tuple[int, int]:
        """Erases the pair with this text. Returns the number of pairs erased, and the memory's version."""
        return await self._log.remove(scope, [text_id(text)])

    async def clear(self, scope: Scope) -> tuple[int, int]:
        """Erases all pairs. Returns their number, and the memory's version."""
        return await self._log.clear(scope)

    async def _up_to_date(self, scope: Scope, version: int) -> MemorySnapshot:
        """The memory in this version or a later one."""
        loaded = self._loaded.get(scope)
        if loaded is None:
            loaded = self._loaded[scope] = _Loaded(MemoryIndex(scope.source, scope.target))
        while loaded.version < version:
            if loaded.reading is None:
                loaded.reading = asyncio.create_task(self._read_on(scope, loaded))
                loaded.reading.add_done_callback(_ignore_failure)
            await asyncio.shield(loaded.reading)
        return loaded.snapshot

    async def _read_on(self, scope: Scope, loaded: _Loaded) -> None:
        try:
            changes = await self._log.changes(scope, loaded.version)
            # If it has all pairs, a new one: requests may still be answered from the present one.
            index = MemoryIndex(scope.source, scope.target) if changes.is_complete else loaded.index
            if len(changes.changes) > _MAX_INLINE_CHANGES or index.is_wasteful:
                index = await asyncio.to_thread(_applied, index, changes)
            else:
                index = _applied(index, changes)
            loaded.index, loaded.version = index, changes.version
        finally:
            loaded.reading = None


def checked_pairs(pairs: Sequence[tuple[str, str]], created: float, author: str) -> dict[str, Pair]:
    """Pairs of a text and its translation as a memory keeps them, by their texts' ids. Raises InvalidFields."""
    made = [Pair(normalise(source), target.strip(), created, author) for source, target in pairs]
    for number, pair in enumerate(made):
        if fault := _fault_of(pair):
            raise InvalidFields.at(f"#/{number}" if len(made) > 1 else "#", fault)
    return {text_id(pair.source): pair for pair in made}


def _ignore_failure(reading: asyncio.Task[None]) -> None:
    """Whoever waits for it has the error; perhaps nobody does any more."""
    if not reading.cancelled():
        reading.exception()


def _applied(index: MemoryIndex, changes: Changes) -> MemoryIndex:
    for version, id, pair in changes.changes:
        if pair is None:
            index.remove(id, version)
        else:
            index.put(pair, version)
    return index.compacted() if index.is_wasteful else index


def _fault_of(pair: Pair) -> str | None:
    if not pair.source or not pair.target:
        return "A pair needs a text and its translation"
    if any("\ufdd0" <= character <= "\ufdef" for text in pair[:2] for character in text):
        return "A text contains a noncharacter of Unicode"
    return None
