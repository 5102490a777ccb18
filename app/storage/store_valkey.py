"""The store in a server of Valkey or Redis, for a service of several instances."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import RedisError

from app.errors import StoreUnavailable
from app.runtime.rate_limits import MAX_CLIENTS, Rate, RateLimiter
from app.storage import lua_scripts
from app.storage.lua_scripts import Script
from app.storage.protocols import Kind, Record, StoreFull
from app.storage.store_connection import Connection

DEFAULT_PREFIX = "interlinear"
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
log = logging.getLogger(__name__)


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
            # The server may have been restarted since the last command, and one on a new connection succeed. No harm
            # is done by a command that is executed twice: a version is replaced once, and a lease lapses.
            retry=Retry(NoBackoff(), 1, supported_errors=(LostConnection,)),
            client_name="interlinear",
        )
        self._small = Connection(pool(), TIMEOUT_S, self._fail)
        self._bulk = Connection(pool(), BULK_TIMEOUT_S, self._fail)
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
            wait = float(await self._rate(lua_scripts.TAKE, meter, rate, amount))
        except StoreUnavailable:  # or late: this instance's own count decides
            return self._local.take(meter, rate, amount)
        return max(wait, 1e-3) if wait else 0.0

    async def used(self, meter: str, rate: Rate) -> int:
        try:
            return int(await self._rate(lua_scripts.USED, meter, rate))
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
        return await self._send_count(counter, self._counts.pop(counter, 0))

    async def _send_count(self, counter: str, amount: int) -> int:
        """Adds the amount, and returns the sum. What the server did not confirm is kept, and sent again: counted twice
        at worst. Raises StoreUnavailable."""
        key = self._key("count", counter)
        try:
            self.check()
            if not amount:
                return int(await self._small.send("GET", key) or 0)
            answer = self._small.send("INCRBY", key, amount)
            self._small.send("EXPIRE", key, COUNTER_LIFE_S).add_done_callback(_ignore_failure)
            return int(await answer)
        except BaseException:
            if amount:
                self.count(counter, amount)
            raise

    def _send_counts_soon(self) -> None:
        self._sending = None
        task = asyncio.create_task(self._send_counts())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_counts(self) -> None:
        counts, self._counts = self._counts, {}
        sent = [self._send_count(counter, amount) for counter, amount in counts.items()]
        await asyncio.gather(*sent, return_exceptions=True)

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
        answer: bytes = await self.run(lua_scripts.PUT, kind.name, *arguments)
        if answer == b"conflict":
            return None
        if not answer.isdigit():
            raise StoreFull(answer.decode())
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
        answer = await self._run(lua_scripts.VERSIONS, kind)
        return {
            id.decode("utf-8", "surrogatepass"): int(entry.split()[0])
            for id, entry in zip(answer[::2], answer[1::2], strict=True)
        }

    async def delete(self, kind: Kind, id: str) -> bool:
        return bool(await self._run(lua_scripts.DELETE, kind, id))

    # ---- Leases

    async def offer(self, kind: Kind, id: str, holder: str = "") -> None:
        await self._run(lua_scripts.OFFER, kind, id, holder)

    async def claim(self, kind: Kind, holder: str, lease_s: float) -> str | None:
        answer = await self._run(lua_scripts.CLAIM, kind, holder, round(lease_s * 1000))
        return None if answer is None else str(answer, "utf-8")

    async def renew(self, kind: Kind, id: str, holder: str, lease_s: float) -> bool:
        return bool(await self._run(lua_scripts.RENEW, kind, id, holder, round(lease_s * 1000)))

    async def withdraw(self, kind: Kind, id: str, holder: str) -> None:
        await self._run(lua_scripts.WITHDRAW, kind, id, holder)

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

    # ---- Commands

    async def run(
        self, script: Script, name: str, *arguments: str | bytes | int, connection: Connection | None = None
    ) -> Any:
        """The answer of a script about keys that begin with `name`, perhaps a large one. Raises StoreUnavailable."""
        self.check()
        encoded = (_bytes(each) if isinstance(each, str) else each for each in arguments)
        return await (connection or self._bulk).run(script, self._key(name), *encoded)

    async def _run(self, script: Script, kind: Kind, *arguments: str | int) -> Any:
        return await self.run(script, kind.name, *arguments, connection=self._small)

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
