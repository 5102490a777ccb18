"""Jobs that outlive their request; their results are fetched later with a key.

Enforces ownership, limits and lifetimes; a store keeps the jobs, and callers supply the work. Any instance may work on
a job, under a lease: if one dies, another begins the job again.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from app.errors import Overloaded, ServiceError, StoreUnavailable
from app.storage.protocols import Kind, Store, StoreFull

log = logging.getLogger(__name__)
MAX_CONCURRENT_JOBS = 4
"""Maximum number of jobs that an instance runs at a time; the others wait."""
MAX_JOBS = 1_000
LIFETIME_S = 3_600.0
"""The lifetime of a job from its start, whether or not its result is fetched."""
MIN_AGE_S = 300.0
"""Results older than this may be dropped to make room for new jobs."""
RETRY_AFTER_S = 1.0
"""How long a refused client should wait before it retries."""
LEASE_S = 10.0
"""If an instance does not renew its lease for this long, another takes the job over."""
MAX_ATTEMPTS = 3
"""How many instances may die of a job."""
POLL_INTERVAL_S = 1.0
"""How often to look for jobs of other instances."""
STATUS_POLL_S = 0.2
"""How often to look whether another instance has finished a job that a client waits for."""


class JobResult(NamedTuple):
    """The result of a job."""

    facts: bytes
    """What its status shows; small."""
    content: bytes


Work = Callable[[bytes, int], Awaitable[JobResult]]
"""Does a task, in this attempt, counted from 1. An exception becomes the job's error; a ServiceError keeps its own
message."""


class JobHandle(NamedTuple):
    """What the owner needs to find a job again."""

    id: str
    key: str


class Job(Struct, frozen=True):
    """The state of a job."""

    id: str
    owner: str
    key_digest: bytes
    """The key's SHA-256; a key is 256 random bits."""
    status: Literal["queued", "translating", "done", "error"] = "queued"
    facts: bytes | None = None
    """Those of its result."""
    error: str | None = None
    """Why there is no result, as a sentence."""
    attempts: int = 0

    @property
    def has_ended(self) -> bool:
        return self.status in ("done", "error")


class BackgroundJobs:
    """Jobs that are queued, running, or done and not fetched; limited in number, bytes and time."""

    def __init__(
        self,
        store: Store,
        work: Work,
        max_bytes: int,
        max_jobs: int = MAX_JOBS,
        lifetime_s: float = LIFETIME_S,
        min_age_s: float = MIN_AGE_S,
        lease_s: float = LEASE_S,
    ) -> None:
        self._store, self._work = store, work
        self._kind = Kind("jobs", max_jobs, max_bytes, lifetime_s)
        # A result may be larger than its task; it is not refused.
        self._kind_of_results = replace(self._kind, max_records=2 * max_jobs, max_bytes=2 * max_bytes)
        self._min_age_s, self._lease_s = min_age_s, lease_s
        self._holder = secrets.token_hex(16)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_wanted = asyncio.Event()
        """Whether to look for a job to run."""
        self._ended = asyncio.Event()
        """Set, and replaced, when a job ends here."""
        self._claiming: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begins to run jobs."""
        self._claiming = asyncio.create_task(self._claim_all())

    async def close(self) -> None:
        """Ends all jobs that run here; other instances may take them over."""
        tasks = dict(self._tasks)
        everything = [*tasks.values(), *([self._claiming] if self._claiming else [])]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)
        for id in tasks:
            with suppress(StoreUnavailable):
                await self._store.offer(self._kind, id, self._holder)

    async def start(self, owner: str, task: bytes) -> JobHandle:
        """Queues a task. Raises Overloaded and StoreUnavailable."""
        handle = JobHandle(secrets.token_hex(16).upper(), secrets.token_hex(32).upper())
        job = Job(handle.id, owner, _digest(handle.key))
        try:
            await self._store.put(self._kind, job.id, {"job": _encode(job), "task": task}, len(task))
        except StoreFull:
            raise Overloaded("Too many translated documents have not been downloaded yet.", (), RETRY_AFTER_S) from None
        await self._store.offer(self._kind, job.id)
        self._is_wanted.set()
        return handle

    async def find(self, id: str, key: str, owner: str) -> Job | None:
        """The job, if `owner` and `key` match; otherwise None. Raises StoreUnavailable."""
        job = await self._read(id)
        if job is None or job.owner != owner or not hmac.compare_digest(job.key_digest, _digest(key)):
            return None
        return job

    async def wait(self, job: Job, seconds: float) -> Job | None:
        """The job once it has ended, or as it is after `seconds`; None if it is gone. Raises StoreUnavailable."""
        loop = asyncio.get_running_loop()
        until, found = loop.time() + seconds, await self._read(job.id)
        while found and not found.has_ended and (left := until - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, STATUS_POLL_S) if self._store.is_shared else left):
                    await self._ended.wait()
            found = await self._read(job.id)
        return found

    async def result(self, job: Job) -> bytes | None:
        """The content of the job's result. Raises StoreUnavailable."""
        record = await self._store.get(self._kind, job.id, "result")
        return record and record.fields.get("result")

    async def forget(self, job: Job) -> None:
        """Drops the job, and cancels it if it is still running. Raises StoreUnavailable."""
        if task := self._tasks.get(job.id):
            task.cancel()
        await self._store.delete(self._kind, job.id)

    async def _read(self, id: str) -> Job | None:
        record = await self._store.get(self._kind, id, "job")
        return _decode(record.fields["job"]) if record else None

    # ---- Work

    async def _claim_all(self) -> None:
        while True:
            self._is_wanted.clear()
            with suppress(StoreUnavailable):
                while len(self._tasks) < MAX_CONCURRENT_JOBS:
                    id = await self._store.claim(self._kind, self._holder, self._lease_s)
                    if id is None:
                        break
                    if id not in self._tasks:  # else the event loop was blocked for longer than the lease
                        self._tasks[id] = task = asyncio.create_task(self._run(id))
                        task.add_done_callback(lambda _, id=id: self._leave(id))  # type: ignore[misc]
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL_S if self._store.is_shared else None):
                    await self._is_wanted.wait()

    def _leave(self, id: str) -> None:
        self._tasks.pop(id, None)
        self._is_wanted.set()
        self._ended.set()
        self._ended = asyncio.Event()

    async def _run(self, id: str) -> None:
        """Does a job that this instance has leased."""
        task = asyncio.current_task()
        assert task
        renewing = asyncio.create_task(self._renew(id, task))
        try:
            await self._attempt(id)
            await self._store.withdraw(self._kind, id, self._holder)
        except StoreUnavailable:
            pass  # the lease will lapse, and the job be taken up again
        finally:
            renewing.cancel()

    async def _renew(self, id: str, task: asyncio.Task[None]) -> None:
        """Renews the lease, and cancels `task` once another instance has the job or it is gone."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            with suppress(StoreUnavailable):
                if not await self._store.renew(self._kind, id, self._holder, self._lease_s):
                    task.cancel()
                    return

    async def _attempt(self, id: str) -> None:
        """Raises StoreUnavailable before the work begins."""
        record = await self._store.get(self._kind, id, "job", "task")
        job = _decode(record.fields["job"]) if record else None
        if record is None or job is None or job.has_ended:
            return
        if job.attempts == MAX_ATTEMPTS:
            log.error("a background job is given up: %d instances have died with it", MAX_ATTEMPTS)
            await self._end(record.version, _failed(job, "The service stopped while it translated this document."))
            return
        task = record.fields["task"]
        job = msgspec.structs.replace(job, status="translating", attempts=job.attempts + 1)
        version = await self._store.put(self._kind, id, {"job": _encode(job)}, len(task), record.version)
        if version is None:
            return
        try:
            result = await self._work(task, job.attempts)
        except ServiceError as error:
            await self._end(version, _failed(job, error.detail))
        except Exception:  # nothing awaits this task
            log.exception("A background job failed")
            await self._end(version, _failed(job, "Internal error; see the service's log."))
        else:
            done = msgspec.structs.replace(job, status="done", facts=result.facts)
            await self._end(version, done, result.content)

    async def _end(self, version: int, job: Job, content: bytes = b"") -> None:
        """Stores how the job ended, unless another instance has changed it meanwhile; waits for the store if it is
        unavailable."""
        fields: Mapping[str, bytes | None] = {"job": _encode(job), "task": None, "result": content}
        while True:
            try:
                await self._store.put(self._kind_of_results, job.id, fields, len(content), version, self._min_age_s)
                return
            except StoreUnavailable:
                await asyncio.sleep(POLL_INTERVAL_S)


def _failed(job: Job, error: str) -> Job:
    return msgspec.structs.replace(job, status="error", error=error)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Job).decode
