"""Translation memories: pairs of texts that clients have approved, by API key and direction, each with a version.

`app.storage.memory_log` keeps them; here is an index of those in use, which every request brings up to date first.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from app.errors import InvalidFields
from app.storage.memory_log import check_growth, parts_of, put_in_parts
from app.storage.protocols import Change, MemoryLog, MemorySize, Part, Scope, StoreFull
from app.text.memory_index import MemoryIndex, MemorySnapshot, Pair
from app.text.memory_slots import id_of_normalised, normalise, text_id
from app.translation.memory import Turns
from model.languages import AUTO
from model.machine import usable_cores

T = TypeVar("T")
_STEP_S = 0.01
"""How long one task uses the thread before the next one does."""
MAX_BYTES_PER_PAIR = 2_000
"""In all indexes together, of the pairs that the log may have."""
_NONCHARACTER = re.compile("[\ufdd0-\ufdef]")


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
        self._thread = ThreadPoolExecutor(1, "memory-index")
        """Runs all long work with indexes, in turns of a few milliseconds."""
        self._loaded: dict[Scope, _Loaded] = {}
        """The least recently used first."""
        self._evicted: WeakValueDictionary[Scope, MemoryIndex] = WeakValueDictionary()
        """Those that a request still uses."""
        self._threads = ThreadPoolExecutor(usable_cores() + 1, "memory")
        """Run the work that `turns` are for, so that it takes no thread that others need."""
        self._turns = defaultdict[str, Turns](lambda: Turns.of(self._threads))

    async def start(self) -> None:
        await self._log.start()

    async def stop(self) -> None:
        for threads in (self._thread, self._threads):
            threads.shutdown(wait=False, cancel_futures=True)
        await self._log.stop()

    @property
    def limits(self) -> MemorySize:
        return self._log.limits

    def turns(self, owner: str) -> Turns:
        """Runs the owner's work with memories outside the event loop."""
        return self._turns[owner]

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
                if with_similar and not snapshot.memory.is_prepared:
                    await self._in_steps(owner, snapshot.memory.prepare_fuzzy())
                    self._evict()
        return found

    async def snapshot(self, scope: Scope, with_similar: bool = False) -> MemorySnapshot:
        """The memory of one scope, with all that was acknowledged before. `with_similar`: see `snapshots`."""
        found = await self.snapshots(*scope, with_similar)
        return found.get((scope.source, scope.target)) or MemorySnapshot(MemoryIndex(scope.source, scope.target), 0)

    async def directions(self, owner: str) -> list[MemorySnapshot]:
        """The owner's memories that have a pair."""
        versions = await self._log.versions(owner)
        found = [await self._up_to_date(Scope(owner, *pair), version) for pair, version in versions.items()]
        return [each for each in found if each.memory.count]

    async def put(
        self,
        scope: Scope,
        pairs: Sequence[tuple[str, str]],
        author: str,
        check_length: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Keeps pairs of a text and its translation; returns the memory's version when they are safe.

        A pair replaces one whose text differs in nothing but white space; of several such pairs, the last one counts.
        Raises InvalidFields, and what `check_length` raises for the length of a text.
        """
        try:
            async with self.turns(scope.owner).writing:
                checked = checked_pairs(pairs, time.time(), author, check_length)
                parts = await self._in_steps(scope.owner, _split(pairs, checked, self.limits))
                assert parts
                return await put_in_parts(self._log, scope, parts)
        except StoreFull as full:
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
        loaded = self._loaded.pop(scope, None)
        if loaded is None:
            index = self._evicted.get(scope) or MemoryIndex(scope.source, scope.target)
            loaded = _Loaded(index, index.version)
        self._loaded[scope] = loaded
        while loaded.version < version:
            if loaded.reading is None:
                loaded.reading = asyncio.create_task(self._read_on(scope, loaded))
                loaded.reading.add_done_callback(_ignore_failure)
            await asyncio.shield(loaded.reading)
        return loaded.snapshot

    async def _read_on(self, scope: Scope, loaded: _Loaded) -> None:
        index = loaded.index
        try:
            is_new, version = False, loaded.version
            async with aclosing(self._log.changes(scope, loaded.version)) as parts:
                async for part in parts:
                    if part.is_complete and not is_new:  # requests may still be answered from the present one
                        index, is_new = MemoryIndex(scope.source, scope.target), True
                    await self._in_steps(scope.owner, _apply(index, part.changes))
                    version = part.version
            if index.is_wasteful:
                index = await self._in_steps(scope.owner, index.compacted()) or index
            loaded.index, loaded.version = index, version
        finally:
            loaded.index.version = loaded.version  # perhaps after a part of another one
            loaded.reading = None
        self._evict()

    def _evict(self) -> None:
        """Forgets indexes while all take too much memory: of the owner with the most, those not used for the longest
        time, but not the last one."""
        limit = MAX_BYTES_PER_PAIR * self._log.limits.pairs
        while True:
            sizes = defaultdict[str, int](int)
            for scope, loaded in self._loaded.items():
                sizes[scope.owner] += loaded.index.size
            last = {scope.owner: scope for scope in self._loaded}
            idle = [scope for scope, of in self._loaded.items() if of.reading is None and scope != last[scope.owner]]
            if not idle or sum(sizes.values()) <= limit:
                return
            unused = max(idle, key=lambda scope: sizes[scope.owner])
            self._evicted[unused] = self._loaded.pop(unused).index

    async def _in_steps(self, owner: str, work: Iterator[T | None]) -> T | None:
        """Runs `work` in the thread, in turns with other owners' and then with the owner's, and returns what comes
        last."""
        step, turn = partial(_advance, work), self.turns(owner).indexing
        while True:
            async with turn:
                done = await asyncio.get_running_loop().run_in_executor(self._thread, step)
            if done:
                return done[0]


def _advance(work: Iterator[T | None]) -> tuple[T | None] | None:
    """Goes on with `work` for a moment. Returns its last value at the end, and before that None."""
    until = time.monotonic() + _STEP_S
    last = None
    for last in work:
        if time.monotonic() > until and last is None:
            return None
    return (last,)


def checked_pairs(
    pairs: Sequence[tuple[str, str]], created: float, author: str, check_length: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[str, Pair]]:
    """Yields pairs of a text and its translation as a memory keeps them, each with its text's id. Raises InvalidFields,
    and what `check_length` raises for the length of a text."""
    for number, (source, target) in enumerate(pairs):
        check_length(max(len(source), len(target)))
        pair = Pair(normalise(source), target.strip(), created, author)
        if fault := _fault_of(pair):
            raise InvalidFields.at(f"#/{number}" if len(pairs) > 1 else "#", fault)
        yield id_of_normalised(pair.source).hex(), pair


def _split(
    pairs: Sequence[tuple[str, str]], checked: Iterable[tuple[str, Pair]], limits: MemorySize
) -> Iterator[list[Part] | None]:
    """Splits checked pairs into parts, which come last; yields None after each step. Raises StoreFull before any work
    if there are too many pairs."""
    check_growth(limits, MemorySize(0, 0), len(pairs), 0)
    check_growth(limits, MemorySize(0, 0), 0, sum(len(source) + len(target) for source, target in pairs))
    by_id, parts = dict[str, Pair](), list[Part]()
    for id, pair in checked:
        by_id[id] = pair
        yield None
    for part in parts_of(by_id):
        parts.append(part)
        yield None
    yield parts


def _ignore_failure(reading: asyncio.Task[None]) -> None:
    """Whoever waits for it has the error; perhaps nobody does any more."""
    if not reading.cancelled():
        reading.exception()


def _apply(index: MemoryIndex, changes: Sequence[Change]) -> Iterator[None]:
    """Makes the changes; yields after each."""
    for version, id, pair in changes:
        if pair is None:
            index.remove(id, version)
        else:
            index.put(pair, version)
        yield


def _fault_of(pair: Pair) -> str | None:
    if not pair.source or not pair.target:
        return "A pair needs a text and its translation"
    if any(_NONCHARACTER.search(text) for text in pair[:2]):
        return "A text contains a noncharacter of Unicode"
    return None
