"""A cache in front of the engine: keeps results, and joins requests for a sequence that is already being decoded."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import OrderedDict
from typing import Protocol

import msgspec

from app.engine.engine import Decoder
from app.engine.job import Job
from app.engine.sequence import Decoded, Sequence
from app.errors import ServiceError
from app.runtime.event_loop import Pauses
from app.runtime.metrics import Metrics

ENTRY_OVERHEAD_BYTES = 240
"""Memory that an entry takes besides the bytes of its key and its result: 190 to 240, as the table grows. (With
cachetools.LRUCache it is 380 to 540, so that a third fewer sentences would fit.)"""
RESULT_SIZE = 8
"""What decoding a result counts on the event loop, at about 3 µs."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Decoded).decode


class ResultCache:
    """An LRU cache of encoded results, of at most `max_bytes`.

    Survives a reload: a key contains the bundle's name with its checksum, so that bundles that stay find their results.
    """

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        """Memory that all entries take."""
        self._counters = [metrics.cache_sentences.labels(result) for result in ("hit", "joined", "miss")]
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        metrics.cache_bytes.set_function(lambda: self.bytes)

    def count_lookups(self, hits: int, joined: int, misses: int) -> None:
        """Adds the outcomes of lookups to the metrics."""
        for counter, sequences in zip(self._counters, (hits, joined, misses), strict=True):
            if sequences:
                counter.inc(sequences)

    def get(self, key: bytes) -> bytes | None:
        """Returns the encoded result and marks it as recently used; None if it is missing."""
        if answer := self._entries.get(key):
            self._entries.move_to_end(key)
        return answer

    def put(self, key: bytes, answer: bytes) -> None:
        if key in self._entries:
            return
        # Copies: msgspec leaves spare bytes behind the end of what it encodes.
        self._entries[bytes(memoryview(key))] = bytes(memoryview(answer))
        self.bytes += _entry_bytes(key, answer)
        while self.bytes > self.max_bytes:
            self.bytes -= _entry_bytes(*self._entries.popitem(last=False))


class JobDecoder(Decoder, Protocol):
    """A decoder that also takes jobs: an Engine, or a fake in tests."""

    def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None: ...


class CachingDecoder:
    """Decodes as `engine` does, bit for bit, but passes it no sequence that is cached or being decoded.

    Requests with recorded attention bypass the cache. No request waits for more turns of another request than it needs
    itself, nor for those of another client: a sentence that is also far back in a queued document is queued twice,
    rather than wait for the document.
    """

    def __init__(self, engine: JobDecoder, results: ResultCache) -> None:
        self.results = results
        self._engine = engine
        self.jobs: dict[bytes, list[SharedJob]] = {}
        """By key, the jobs in progress: several if they wait in the queues of several clients. The first that ends ends
        all."""

    async def decode(
        self, sequences: list[Sequence], deadline: float, client: str = "", continues: bool = False
    ) -> list[Future[Decoded]]:
        """See `Decoder`."""
        if any(sequence.attention for sequence in sequences):
            return await self._engine.decode(sequences, deadline, client, continues)
        found: list[bytes | SharedJob] = []
        missing: dict[bytes, SharedJob] = {}
        hits = 0
        for sequence in sequences:
            key = cache_key(sequence)
            if answer := self.results.get(key):
                found.append(answer)
                hits += 1
                continue
            job = missing.get(key) or self._find_joinable(key, 0 if continues else len(sequences), client)
            if job is None:
                job = missing[key] = SharedJob(sequence, deadline, key, self)
            found.append(job)
        self.results.count_lookups(hits, len(found) - hits - len(missing), len(missing))
        self._engine.submit(list(missing.values()), client, continues)
        for key, job in missing.items():
            self.jobs.setdefault(key, []).append(job)
        return await _make_futures(found, deadline)

    def _find_joinable(self, key: bytes, turns: int, client: str) -> SharedJob | None:
        """The job in progress for `key`, if it has started, or starts within `turns` turns of the client's."""
        return next((job for job in self.jobs.get(key, ()) if job.starts_within(turns, client)), None)


async def _make_futures(found: list[bytes | SharedJob], deadline: float) -> list[Future[Decoded]]:
    """A future for each encoded result, and for each job that will have one."""
    loop = asyncio.get_running_loop()
    futures: list[Future[Decoded]] = []
    packed: list[tuple[Future[Decoded], bytes]] = []
    for one in found:
        if isinstance(one, bytes):
            future: Future[Decoded] = loop.create_future()
            packed.append((future, one))
        else:
            one.deadline = max(one.deadline, deadline)
            future = one.new_future()
        futures.append(future)
    pauses = Pauses()
    try:
        for future, answer in packed:
            future.set_result(_decode(answer))
            await pauses.after(RESULT_SIZE)
    except asyncio.CancelledError:
        for future in futures:
            future.cancel()
        raise
    return futures


class SharedJob(Job):
    """A job whose result goes into the cache."""

    __slots__ = "_cache", "_key"

    def __init__(self, sequence: Sequence, deadline: float, key: bytes, cache: CachingDecoder) -> None:
        super().__init__(sequence, deadline)
        self._key, self._cache = key, cache

    def finish(self, decoded: Decoded) -> None:
        self._cache.results.put(self._key, _encode(decoded))
        self._forget()
        super().finish(decoded)
        for other in [job for job in self._cache.jobs.get(self._key, ()) if job.number < 0]:
            other._finish_in_queue(decoded)

    def _finish_in_queue(self, decoded: Decoded) -> None:
        """Ends with the result of another job for the same key, and leaves the queue."""
        futures = self.futures
        self.drop()
        self.futures = futures
        super().finish(decoded)

    def fail(self, error: ServiceError) -> None:
        self._forget()
        super().fail(error)

    def drop(self) -> None:
        self._forget()
        super().drop()

    def _forget(self) -> None:
        jobs = self._cache.jobs.get(self._key, [])
        if self in jobs:
            jobs.remove(self)
        if not jobs:
            self._cache.jobs.pop(self._key, None)


def with_cache(engine: JobDecoder, results: ResultCache) -> Decoder:
    """`engine` behind a cache; `engine` itself if the cache's size is 0."""
    return CachingDecoder(engine, results) if results.max_bytes else engine


def cache_key(sequence: Sequence) -> bytes:
    """The key of a sequence: everything that affects its result, including the bundle's name with its checksum."""
    return _encode(sequence)


def _entry_bytes(key: bytes, answer: bytes) -> int:
    return len(key) + len(answer) + ENTRY_OVERHEAD_BYTES
