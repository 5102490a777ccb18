"""Work that outlives the request it came with, and whose result is fetched later by whoever has the key to it.

Knows who may have what and for how long; what the work is, it is given. All in memory: the service's end is theirs.
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
"""So many are worked on; the others wait."""
MOST = 1_000
LIFE_S = 3_600.0
"""From its beginning an errand has so long, and then it is forgotten, fetched or not."""
REST_S = 300.0
"""A result that has lain for so long gives way to who comes, if there is no other room."""
PAUSE_S = 1.0
"""After which a client that found no room may try again."""


class Sized(Protocol):
    """A result, which takes so many bytes."""

    @property
    def size(self) -> int: ...


R = TypeVar("R", bound=Sized)
T = TypeVar("T")


@dataclass(eq=False)
class Errand(Generic[R]):
    """One piece of work. `size`: what it holds, in bytes; first what it was given, then its result."""

    owner: str
    size: int
    id: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    status: Literal["queued", "translating", "done", "error"] = "queued"
    result: R | None = None
    error: str | None = None
    """Why there is no result, in a sentence."""
    ended: float | None = None
    """On the event loop's clock."""
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, at: float) -> None:
        self.ended = at
        self._over.set()

    async def wait(self, seconds: float) -> None:
        """Returns when it is done or has failed, and at the latest after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()


class Errands(Generic[R]):
    """Those that are queued, worked on, and done but not fetched: bounded in number, in bytes and in time."""

    def __init__(self, most_bytes: int, most: int = MOST, life_s: float = LIFE_S, rest_s: float = REST_S) -> None:
        self.most_bytes, self.most, self.life_s, self.rest_s = most_bytes, most, life_s, rest_s
        self._errands: dict[str, Errand[R]] = {}
        self._tasks: dict[Errand[R], asyncio.Task[None]] = {}
        self._ends: dict[Errand[R], asyncio.TimerHandle] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    def begin(self, owner: str, size: int, work: Callable[[], Awaitable[R]]) -> Errand[R]:
        """Begins `work`, which holds `size` bytes. Raises Overloaded.

        What `work` raises, the errand tells; a ServiceError in its own words.
        """
        self._make_room(size)
        errand = Errand[R](owner, size)
        self._errands[errand.id] = errand
        self._ends[errand] = asyncio.get_running_loop().call_later(self.life_s, self.forget, errand)
        task = self._tasks[errand] = asyncio.create_task(self._run(errand, work))
        task.add_done_callback(lambda _: self._tasks.pop(errand, None))
        return errand

    def find(self, id: str, key: str, owner: str) -> Errand[R] | None:
        """The errand, for its owner with its key; for anybody else there is none."""
        errand = self._errands.get(id)
        if errand is None or errand.owner != owner or not hmac.compare_digest(_bytes(errand.key), _bytes(key)):
            return None
        return errand

    def forget(self, errand: Errand[R]) -> None:
        """Nobody asks for it any more. If it is not done, it is ended."""
        self._errands.pop(errand.id, None)
        if end := self._ends.pop(errand, None):
            end.cancel()
        if task := self._tasks.get(errand):
            task.cancel()

    async def close(self) -> None:
        """Ends all work, and forgets all."""
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
        except Exception:  # nobody awaits this task
            log.exception("An errand failed")
            errand.status, errand.size, errand.error = "error", 0, "A bug; the service's log says where."
        errand.end(asyncio.get_running_loop().time())

    def _make_room(self, size: int) -> None:
        """Raises Overloaded, and then nothing has given way: a result is not lost for what is refused all the same."""
        latest = asyncio.get_running_loop().time() - self.rest_s
        ended = [errand for errand in self._errands.values() if errand.ended is not None and errand.ended <= latest]
        ended.sort(key=lambda errand: errand.ended or 0.0)
        held, number = sum(errand.size for errand in self._errands.values()), len(self._errands)
        leaving = 0
        while number - leaving >= self.most or held + size > self.most_bytes:
            if leaving == len(ended):
                raise Overloaded("There are too many documents here that nobody has fetched yet.", (), PAUSE_S)
            held -= ended[leaving].size
            leaving += 1
        for errand in ended[:leaving]:
            self.forget(errand)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
