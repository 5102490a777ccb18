"""Jobs that outlive their request; their results are fetched later with a key.

Enforces ownership, limits and lifetimes; callers supply the work. Everything is in memory, and lost at shutdown.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from app.errors import Overloaded, ServiceError

log = logging.getLogger(__name__)
MAX_CONCURRENT_JOBS = 4
"""Maximum number of jobs that run at a time; the others wait."""
MAX_JOBS = 1_000
LIFETIME_S = 3_600.0
"""The lifetime of a job from its start, whether or not its result is fetched."""
MIN_AGE_S = 300.0
"""Results older than this may be dropped to make room for new jobs."""
RETRY_AFTER_S = 1.0
"""How long a refused client should wait before it retries."""


class Sized(Protocol):
    """A result and its size in bytes."""

    @property
    def size(self) -> int: ...


R = TypeVar("R", bound=Sized)
T = TypeVar("T")


@dataclass(eq=False)
class BackgroundJob(Generic[R]):
    """One job. `size`: the bytes that it holds, first of its input, then of its result."""

    owner: str
    size: int
    id: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    status: Literal["queued", "translating", "done", "error"] = "queued"
    result: R | None = None
    error: str | None = None
    """Why there is no result, as a sentence."""
    ended_at: float | None = None
    """In seconds, on the event loop's clock."""
    _done: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, at: float) -> None:
        self.ended_at = at
        self._done.set()

    async def wait(self, seconds: float) -> None:
        """Waits until it is done or has failed, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._done.wait()


class BackgroundJobs(Generic[R]):
    """Jobs that are queued, running, or done and not fetched; limited in number, bytes and time."""

    def __init__(
        self, max_bytes: int, max_jobs: int = MAX_JOBS, lifetime_s: float = LIFETIME_S, min_age_s: float = MIN_AGE_S
    ) -> None:
        self.max_bytes, self.max_jobs, self.lifetime_s, self.min_age_s = max_bytes, max_jobs, lifetime_s, min_age_s
        self._jobs: dict[str, BackgroundJob[R]] = {}
        self._tasks: dict[BackgroundJob[R], asyncio.Task[None]] = {}
        self._expiries: dict[BackgroundJob[R], asyncio.TimerHandle] = {}
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_JOBS)

    def start(self, owner: str, size: int, work: Callable[[], Awaitable[R]]) -> BackgroundJob[R]:
        """Starts `work`, which holds `size` bytes. Raises Overloaded.

        An exception from `work` becomes the job's error; a ServiceError keeps its own message.
        """
        self._make_room(size)
        job = BackgroundJob[R](owner, size)
        self._jobs[job.id] = job
        self._expiries[job] = asyncio.get_running_loop().call_later(self.lifetime_s, self.forget, job)
        task = self._tasks[job] = asyncio.create_task(self._run(job, work))
        task.add_done_callback(lambda _: self._tasks.pop(job, None))
        return job

    def find(self, id: str, key: str, owner: str) -> BackgroundJob[R] | None:
        """The job, if `owner` and `key` match; otherwise None."""
        job = self._jobs.get(id)
        if job is None or job.owner != owner or not hmac.compare_digest(_encode(job.key), _encode(key)):
            return None
        return job

    def forget(self, job: BackgroundJob[R]) -> None:
        """Drops the job, and cancels it if it is still running."""
        self._jobs.pop(job.id, None)
        if end := self._expiries.pop(job, None):
            end.cancel()
        if task := self._tasks.get(job):
            task.cancel()

    async def close(self) -> None:
        """Cancels and drops all jobs."""
        tasks = list(self._tasks.values())
        for job in list(self._jobs.values()):
            self.forget(job)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: BackgroundJob[R], work: Callable[[], Awaitable[R]]) -> None:
        try:
            async with self._semaphore:
                job.status = "translating"
                job.result = await work()
            job.status, job.size = "done", job.result.size
        except ServiceError as error:
            job.status, job.size, job.error = "error", 0, error.detail
        except Exception:  # nothing awaits this task
            log.exception("A background job failed")
            job.status, job.size, job.error = "error", 0, "Internal error; see the service's log."
        job.end(asyncio.get_running_loop().time())

    def _make_room(self, size: int) -> None:
        """Drops old results to make room. Raises Overloaded if that is not enough, and then drops nothing."""
        latest = asyncio.get_running_loop().time() - self.min_age_s
        ended = [job for job in self._jobs.values() if job.ended_at is not None and job.ended_at <= latest]
        ended.sort(key=lambda job: job.ended_at or 0.0)
        held, number = sum(job.size for job in self._jobs.values()), len(self._jobs)
        leaving = 0
        while number - leaving >= self.max_jobs or held + size > self.max_bytes:
            if leaving == len(ended):
                raise Overloaded("Too many translated documents have not been downloaded yet.", (), RETRY_AFTER_S)
            held -= ended[leaving].size
            leaving += 1
        for job in ended[:leaving]:
            self.forget(job)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
