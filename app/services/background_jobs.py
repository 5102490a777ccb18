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
AT_ONCE = 4
"""Jobs that run concurrently; the others wait."""
MOST = 1_000
LIFE_S = 3_600.0
"""The lifetime of a job from its start, whether its result is fetched or not."""
REST_S = 300.0
"""Results older than this may be dropped to make room."""
PAUSE_S = 1.0
"""How long a refused client should wait before it retries."""


class Sized(Protocol):
    """A result and its size in bytes."""

    @property
    def size(self) -> int: ...


R = TypeVar("R", bound=Sized)
T = TypeVar("T")


@dataclass(eq=False)
class Errand(Generic[R]):
    """One job. `size`: the bytes that it holds, first of its input, then of its result."""

    owner: str
    size: int
    id: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    status: Literal["queued", "translating", "done", "error"] = "queued"
    result: R | None = None
    error: str | None = None
    """Why there is no result, as a sentence."""
    ended: float | None = None
    """On the event loop's clock."""
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, at: float) -> None:
        self.ended = at
        self._over.set()

    async def wait(self, seconds: float) -> None:
        """Waits until it is done or has failed, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()


class Errands(Generic[R]):
    """Jobs that are queued, running, or done and not fetched; limited in number, bytes and time."""

    def __init__(self, most_bytes: int, most: int = MOST, life_s: float = LIFE_S, rest_s: float = REST_S) -> None:
        self.most_bytes, self.most, self.life_s, self.rest_s = most_bytes, most, life_s, rest_s
        self._errands: dict[str, Errand[R]] = {}
        self._tasks: dict[Errand[R], asyncio.Task[None]] = {}
        self._ends: dict[Errand[R], asyncio.TimerHandle] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    def begin(self, owner: str, size: int, work: Callable[[], Awaitable[R]]) -> Errand[R]:
        """Starts `work`, which holds `size` bytes. Raises Overloaded.

        An exception from `work` becomes the job's error; a ServiceError keeps its own message.
        """
        self._make_room(size)
        errand = Errand[R](owner, size)
        self._errands[errand.id] = errand
        self._ends[errand] = asyncio.get_running_loop().call_later(self.life_s, self.forget, errand)
        task = self._tasks[errand] = asyncio.create_task(self._run(errand, work))
        task.add_done_callback(lambda _: self._tasks.pop(errand, None))
        return errand

    def find(self, id: str, key: str, owner: str) -> Errand[R] | None:
        """The job, if `owner` and `key` match; otherwise None."""
        errand = self._errands.get(id)
        if errand is None or errand.owner != owner or not hmac.compare_digest(_bytes(errand.key), _bytes(key)):
            return None
        return errand

    def forget(self, errand: Errand[R]) -> None:
        """Drops the job, and cancels it if it is still running."""
        self._errands.pop(errand.id, None)
        if end := self._ends.pop(errand, None):
            end.cancel()
        if task := self._tasks.get(errand):
            task.cancel()

    async def close(self) -> None:
        """Cancels and drops all jobs."""
        tasks = list(self._tasks.values())
        for errand in list(self._errands.values()):
            self.forget(errand)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, errand: Errand[R], work: Callable[[], Awaitable[R]]) -> None:
        try:
            async with self._turns:
                errand.status = "translating"
                errand.result = await work()
            errand.status, errand.size = "done", errand.result.size
        except ServiceError as error:
            errand.status, errand.size, errand.error = "error", 0, error.detail
        except Exception:  # nothing awaits this task
            log.exception("An errand failed")
            errand.status, errand.size, errand.error = "error", 0, "Internal error; see the service's log."
        errand.end(asyncio.get_running_loop().time())

    def _make_room(self, size: int) -> None:
        """Drops old results to make room. Raises Overloaded if that is not enough, and then drops nothing."""
        latest = asyncio.get_running_loop().time() - self.rest_s
        ended = [errand for errand in self._errands.values() if errand.ended is not None and errand.ended <= latest]
        ended.sort(key=lambda errand: errand.ended or 0.0)
        held, number = sum(errand.size for errand in self._errands.values()), len(self._errands)
        leaving = 0
        while number - leaving >= self.most or held + size > self.most_bytes:
            if leaving == len(ended):
                raise Overloaded("Too many translated documents have not been downloaded yet.", (), PAUSE_S)
            held -= ended[leaving].size
            leaving += 1
        for errand in ended[:leaving]:
            self.forget(errand)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
