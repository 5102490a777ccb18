"""The store in a server of Valkey or Redis, for a service of several instances. The only module that imports redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import NoScriptError, RedisError

from app.errors import StoreUnavailable
from app.runtime.rate_limits import MAX_CLIENTS, Rate, RateLimiter
from app.services.store import Kind, Record, StoreFull
from app.services.store_scripts import (
    ALL,
    CLAIM,
    DELETE,
    OFFER,
    PUT,
    RENEW,
    TAKE,
    USED,
    VERSIONS,
    WITHDRAW,
    Script,
)

DEFAULT_PREFIX = "interlinear"
RATE_TIMEOUT_S = 0.05
"""How long a request waits for its rate before this instance's own count decides."""
TIMEOUT_S = 1.0
"""After twice this long without an answer to small operations the store is unavailable."""
BULK_TIMEOUT_S = 5.0
"""The same for records, which may be as large as documents."""
PROBE_INTERVAL_S = 0.5
"""How often to look whether an unavailable store is back."""
SEND_INTERVAL_S = 1.0
"""How often counters are sent."""
COUNTER_LIFE_S = 31 * 86_400
"""How long a counter stays that nothing is added to."""
_PASSES = 3
"""After a blocked event loop, what has arrived meanwhile takes so many passes until it is read."""
log = logging.getLogger(__name__)


class _Command:
    """A command that waits for its answer."""

    __slots__ = ("answer", "arguments", "is_urgent")

    def __init__(self, arguments: tuple[Any, ...], is_urgent: bool) -> None:
        self.arguments, self.is_urgent = arguments, is_urgent
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(StoreUnavailable())


class _Connection:
    """A connection over which all commands of one pass of the event loop go in one pipeline.

    One pipeline at a time: while it is under way, the next one gathers.
    """

    def __init__(self, pool: ConnectionPool, timeout_s: float, failed: Callable[[Exception], None]) -> None:
        """`failed` is called when the server does not answer for twice `timeout_s`, or refuses a command."""
        self._client = Redis(connection_pool=pool)
        self._timeout_s, self._failed = timeout_s, failed
        self._waiting: list[_Command] = []
        self._sent: list[_Command] = []
        self._task: asyncio.Task[None] | None = None
        self.is_late = False
        """Whether the pipeline under way takes longer than RATE_TIMEOUT_S."""

    def send(self, *arguments: Any, is_urgent: bool = False) -> asyncio.Future[Any]:
        """The answer's future, which fails with StoreUnavailable; an urgent one does so after RATE_TIMEOUT_S."""
        command = _Command(arguments, is_urgent)
        self._waiting.append(command)
        if self._task is None:
            self._task = asyncio.create_task(self._send_all())
        return command.answer

    def run(self, script: Script, key: str, *arguments: Any, is_urgent: bool = False) -> asyncio.Future[Any]:
        return self.send("EVALSHA", script.digest, 1, key, *arguments, is_urgent=is_urgent)

    async def load_scripts(self) -> None:
        """Raises RedisError, OSError and TimeoutError."""
        await self.execute([("SCRIPT", "LOAD", script.source) for script in ALL])

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self._client.aclose(close_connection_pool=True)

    async def _send_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                self._sent, self._waiting = self._waiting, []
                late = loop.call_later(RATE_TIMEOUT_S, self._expire, _PASSES)
                try:
                    await self._answer([command for command in self._sent if not command.answer.done()])
                except (RedisError, OSError, TimeoutError) as error:
                    self._failed(error)
                finally:
                    late.cancel()
                    self.is_late = False
                    for command in self._sent:
                        command.fail()
        finally:
            self._task = None
            for command in self._waiting:
                command.fail()

    async def _answer(self, commands: list[_Command]) -> None:
        """Raises RedisError, OSError and TimeoutError."""
        answers = await self.execute([command.arguments for command in commands])
        unknown = [command for command, got in zip(commands, answers, strict=True) if isinstance(got, NoScriptError)]
        if unknown:  # the server has been restarted; these commands have done nothing
            await self.load_scripts()
            again = await self.execute([command.arguments for command in unknown])
            commands, answers = [*commands, *unknown], [*answers, *again]
        for command, got in zip(commands, answers, strict=True):
            if isinstance(got, Exception):
                if not isinstance(got, NoScriptError):
                    self._failed(got)
            elif not command.answer.done():
                command.answer.set_result(got)

    async def execute(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Raises RedisError, OSError and TimeoutError."""
        try:
            return await self._execute(commands)
        except LostConnection:
            # The server may have been restarted since the last command, and one on a new connection succeed. No harm
            # is done by a command that is executed twice: a version is replaced once, and a lease lapses.
            return await self._execute(commands)

    async def _execute(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        """Raises RedisError, OSError and TimeoutError."""
        pipeline = self._client.pipeline(transaction=False)
        for arguments in commands:
            pipeline.execute_command(*arguments)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as limit:
                # In two steps: after the event loop was blocked, it first reads what has arrived meanwhile.
                timer = loop.call_later(self._timeout_s, lambda: limit.reschedule(loop.time() + self._timeout_s))
                try:
                    answers: list[Any] = await pipeline.execute(raise_on_error=False)
                finally:
                    timer.cancel()
                return answers
        except BaseException:  # answers that come later must not be taken for those of the next pipeline
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        await self._client.connection_pool.disconnect()

    def _expire(self, passes: int) -> None:
        if passes:
            asyncio.get_running_loop().call_soon(self._expire, passes - 1)
            return
        if self._task is None:
            return
        self.is_late = True
        for command in (*self._sent, *self._waiting):
            if command.is_urgent:
                command.fail()


class ValkeyStore:
    """A server of Valkey or Redis. If it does not answer, rates are those of this instance alone."""

    is_shared = True

    def __init__(self, url: str, set_available: Callable[[bool], None] = lambda is_available: None) -> None:
        """`url`: redis://, rediss:// or unix://; `?prefix=NAME` begins all keys. Raises ValueError."""
        url, self._prefix = _split_prefix(url)
        pool = partial(
            ConnectionPool.from_url,
            url,
            max_connections=2,  # the second one for probes
            socket_connect_timeout=TIMEOUT_S,
            socket_timeout=None,  # each pipeline has its own
            retry=Retry(NoBackoff(), 0),
            client_name="interlinear",
        )
        self._small = _Connection(pool(), TIMEOUT_S, self._fail)
        self._bulk = _Connection(pool(), BULK_TIMEOUT_S, self._fail)
        self._set_available = set_available
        self._is_available = True
        self._probing: asyncio.Task[None] | None = None
        self._local = RateLimiter()
        self._counts: dict[str, int] = {}
        self._sending: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Connects. If that fails, the service starts all the same and tries again."""
        try:
            await self._probe()
            self._set_available(True)
        except (RedisError, OSError, TimeoutError) as error:
            self._fail(error)

    async def stop(self) -> None:
        if self._probing:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        if self._sending:
            self._sending.cancel()
        if self._is_available:
            await self._send_counts()
        for connection in (self._small, self._bulk):
            await connection.close()

    def check(self) -> None:
        if not self._is_available:
            raise StoreUnavailable

    # ---- Rates and counters

    async def take(self, meter: str, rate: Rate, amount: int) -> float:
        try:
            wait = float(await self._rate(TAKE, meter, rate, amount))
        except StoreUnavailable:
            return self._local.take(meter, rate, amount)
        return max(wait, 1e-3) if wait else 0.0

    async def used(self, meter: str, rate: Rate) -> int:
        try:
            return int(await self._rate(USED, meter, rate))
        except StoreUnavailable:
            return self._local.used(meter, rate)

    def _rate(self, script: Script, meter: str, rate: Rate, *amount: int) -> asyncio.Future[Any]:
        self.check()
        if self._small.is_late:
            raise StoreUnavailable
        return self._small.run(
            script, self._key("rate", meter), repr(rate.interval_s), rate.amount, *amount, is_urgent=True
        )

    def count(self, counter: str, amount: int) -> None:
        counts = self._counts
        if counter in counts or len(counts) < MAX_CLIENTS:
            counts[counter] = counts.get(counter, 0) + amount
        if self._sending is None:
            self._sending = asyncio.get_running_loop().call_later(SEND_INTERVAL_S, self._send_counts_soon)

    async def counted(self, counter: str) -> int:
        self.check()
        amount = self._counts.pop(counter, 0)
        try:
            return int(await (self._send_count(counter, amount) if amount else self._get_count(counter)) or 0)
        except BaseException:
            self._add_counts({counter: amount})
            raise

    def _get_count(self, counter: str) -> asyncio.Future[Any]:
        return self._small.send("GET", self._key("count", counter))

    def _send_count(self, counter: str, amount: int) -> asyncio.Future[Any]:
        key = self._key("count", counter)
        answer = self._small.send("INCRBY", key, amount)
        self._small.send("EXPIRE", key, COUNTER_LIFE_S).add_done_callback(_ignore_failure)
        return answer

    def _send_counts_soon(self) -> None:
        self._sending = None
        task = asyncio.create_task(self._send_counts())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_counts(self) -> None:
        """Sends what was counted. What the server did not confirm is kept, and sent again: counted twice at worst."""
        counts, self._counts = self._counts, {}
        sent: dict[str, asyncio.Future[Any]] = {}
        if self._is_available:
            sent = {counter: self._send_count(counter, amount) for counter, amount in counts.items()}
        answers = await asyncio.gather(*sent.values(), return_exceptions=True)
        confirmed = {counter for counter, got in zip(sent, answers, strict=True) if not isinstance(got, BaseException)}
        self._add_counts({counter: amount for counter, amount in counts.items() if counter not in confirmed})

    def _add_counts(self, counts: Mapping[str, int]) -> None:
        for counter, amount in counts.items():
            if amount:
                self.count(counter, amount)

    # ---- Records

    async def put(
        self,
        kind: Kind,
        id: str,
        fields: Mapping[str, bytes | None],
        size: int,
        replaces: int = 0,
        keep_s: float | None = None,
    ) -> int | None:
        set_fields = [(name, value) for name, value in fields.items() if value is not None]
        removed = [name for name, value in fields.items() if value is None]
        life_ms = 0 if kind.life_s is None else max(1, round(kind.life_s * 1000))
        keep_ms = -1 if keep_s is None else round(keep_s * 1000)
        limits = (size, kind.max_records, kind.max_bytes, life_ms, keep_ms)
        arguments = (id, replaces, *limits, len(set_fields), *(part for pair in set_fields for part in pair), *removed)
        answer: bytes = await self._run(PUT, kind, *arguments, connection=self._bulk)
        if answer == b"conflict":
            return None
        if answer == b"records":
            raise StoreFull("records")
        if answer == b"bytes":
            raise StoreFull("bytes")
        return int(answer)

    async def get(self, kind: Kind, id: str, *fields: str) -> Record | None:
        self.check()
        version, *values = await self._bulk.send("HMGET", self._record(kind, id), "version", *fields)
        if version is None:
            return None
        found = {name: value for name, value in zip(fields, values, strict=True) if value is not None}
        return Record(int(version), found)

    async def version(self, kind: Kind, id: str) -> int:
        self.check()
        return int(await self._small.send("HGET", self._record(kind, id), "version") or 0)

    async def versions(self, kind: Kind) -> dict[str, int]:
        answer = await self._run(VERSIONS, kind)
        return {
            id.decode("utf-8", "surrogatepass"): int(entry.split()[0])
            for id, entry in zip(answer[::2], answer[1::2], strict=True)
        }

    async def delete(self, kind: Kind, id: str) -> bool:
        return bool(await self._run(DELETE, kind, id))

    # ---- Leases

    async def offer(self, kind: Kind, id: str, holder: str = "") -> None:
        await self._run(OFFER, kind, id, holder)

    async def claim(self, kind: Kind, holder: str, lease_s: float) -> str | None:
        answer = await self._run(CLAIM, kind, holder, round(lease_s * 1000))
        return None if answer is None else str(answer, "utf-8")

    async def renew(self, kind: Kind, id: str, holder: str, lease_s: float) -> bool:
        return bool(await self._run(RENEW, kind, id, holder, round(lease_s * 1000)))

    async def withdraw(self, kind: Kind, id: str, holder: str) -> None:
        await self._run(WITHDRAW, kind, id, holder)

    # ---- Whether it answers

    def _fail(self, error: Exception) -> None:
        """Makes the store unavailable until a probe succeeds."""
        if not self._is_available:
            return
        self._is_available = False
        self._set_available(False)
        log.error(
            "the store does not answer (%s): each instance counts rates by itself; glossaries, documents and downloads"
            " have to wait",
            " ".join(str(error).split()) or type(error).__name__,
        )
        self._probing = asyncio.create_task(self._wait_until_available())

    async def _wait_until_available(self) -> None:
        while True:
            await asyncio.sleep(PROBE_INTERVAL_S)
            with suppress(RedisError, OSError, TimeoutError):
                await self._probe()
                await self._bulk.disconnect()
                break
        self._is_available = True
        self._set_available(True)
        log.warning("the store answers again")

    async def _probe(self) -> None:
        """Raises RedisError, OSError and TimeoutError unless the server takes scripts and writes."""
        await self._small.load_scripts()
        (answer,) = await self._small.execute([("SET", self._key("probe"), 1, "PX", 1000)])
        if isinstance(answer, Exception):
            raise answer

    async def _run(self, script: Script, kind: Kind, *arguments: Any, connection: _Connection | None = None) -> Any:
        self.check()
        arguments = tuple(_bytes(each) if isinstance(each, str) else each for each in arguments)
        return await (connection or self._small).run(script, self._key(kind.name), *arguments)

    def _key(self, *parts: str) -> str:
        return ":".join([self._prefix, *parts])

    def _record(self, kind: Kind, id: str) -> bytes:
        return _bytes(self._key(kind.name, "record", id))


def _bytes(text: str) -> bytes:
    """An id may be anything that a client has sent."""
    return text.encode("utf-8", "surrogatepass")


def _ignore_failure(answer: asyncio.Future[Any]) -> None:
    if not answer.cancelled():
        answer.exception()


def _split_prefix(url: str) -> tuple[str, str]:
    """The URL without `prefix` in its query, and the prefix."""
    address, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    others = urlencode([(name, value) for name, value in options if name != "prefix"])
    return f"{address}?{others}" if others else address, dict(options).get("prefix") or DEFAULT_PREFIX
