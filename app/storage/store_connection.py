"""A connection to a server of Valkey or Redis, over which the commands of one pass of the event loop go together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import NoScriptError, RedisError

from app.errors import StoreUnavailable
from app.storage.lua_scripts import ALL, Script

URGENT_TIMEOUT_S = 0.05
"""How long an urgent command waits for its answer."""
_PASSES = 3
"""After a blocked event loop, what has arrived meanwhile takes so many passes until it is read."""


def server_time(url: str, timeout_s: float) -> float:
    """The seconds since 1970 by the server's clock. Raises StoreUnavailable from what went wrong."""

    async def ask() -> tuple[int, int]:
        async with Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s) as client:
            seconds, microseconds = await client.time()
            return seconds, microseconds

    try:
        seconds, microseconds = asyncio.run(ask())
    except (RedisError, OSError, ValueError, TimeoutError) as error:
        raise StoreUnavailable from error
    return seconds + microseconds / 1e6


class _Command(NamedTuple):
    """A command that waits for its answer."""

    arguments: tuple[Any, ...]
    is_urgent: bool
    answer: asyncio.Future[Any]

    def fail(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(StoreUnavailable())


class Connection:
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
        """Whether the pipeline under way takes longer than URGENT_TIMEOUT_S."""

    def send(self, *arguments: Any, is_urgent: bool = False) -> asyncio.Future[Any]:
        """The answer's future, which fails with StoreUnavailable; an urgent one does so after URGENT_TIMEOUT_S."""
        command = _Command(arguments, is_urgent, asyncio.get_running_loop().create_future())
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
                late = loop.call_later(URGENT_TIMEOUT_S, self._expire, _PASSES)
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
