"""A small application behind the service's own server, on either event loop, for tests of connections."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.runtime.byte_budgets import ByteBudget
from app.runtime.event_loop_lag import LoopLag
from app.runtime.shutdown import Shutdown
from app.server.connection import Connection, ConnectionLimits
from app.server.request_queue import RequestQueue
from app.server.server import Server
from app.server.slow_readers import SlowReaders
from app.server.state import app_state

WAIT_S = 600.0
"""What the service does at once, a busy machine may take so long for; only a test that fails waits to the end of it."""
on_both_loops = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


def becomes(is_so: Callable[[], bool]) -> bool:
    """Whether `is_so` becomes true within WAIT_S."""
    until = time.monotonic() + WAIT_S
    while not (found := is_so()) and time.monotonic() < until:
        time.sleep(0.01)
    return found


@dataclass
class Small:
    """GET /: its response.

    GET /slow: the same once it `goes_on`. GET /block: blocks the event loop until then. POST /read: the number of bytes
    received. Any other POST is refused before its body is read.
    """

    goes_on: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    """The paths of requests that have begun."""
    left: list[str] = field(default_factory=list)
    """The paths of requests whose client left before the answer."""
    cycles: list[weakref.ref[object]] = field(default_factory=list)
    """What the server has of each request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.cycles.append(weakref.ref(receive.__self__))  # type: ignore[attr-defined]
        path, status, answer = scope["path"], 200, b"answer"
        self.asked.append(path)
        if path == "/slow":
            watcher = asyncio.create_task(self._watch(path, receive))
            while not (self.goes_on.is_set() or watcher.done()):  # noqa: ASYNC110  # another thread sets it
                await asyncio.sleep(0.01)
            watcher.cancel()
        elif path == "/block":
            self.goes_on.wait(WAIT_S)  # that nothing else happens is the point
        elif path == "/read":
            answer = b"%d" % await _length(receive)
        elif scope["method"] == "POST":
            status, answer = 404, b"refused"
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _watch(self, path: str, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.append(path)


async def _length(receive: Receive) -> int:
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    return length


@dataclass
class Running:
    """A server in a thread."""

    server: Server
    address: tuple[str, int]
    app: Small
    thread: threading.Thread

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=WAIT_S)

    def set_patience(self, patience_s: float) -> None:
        """Sets how long open connections wait from now on for a header, the rest of a body, or the next request. Call
        it when the wait begins, since the test may be delayed before."""
        connections: list[Any] = list(self.server.server_state.connections)
        for connection in connections:
            connection.timeout_keep_alive = patience_s

    def stop(self) -> None:
        self.server.should_exit = True

    @property
    def has_begun_to_stop(self) -> bool:
        begun: bool = app_state(self.server.lifespan.state).shutdown.begun
        return begun


class Patient(Connection):
    """Waits for a client that is delayed between two parts of its body."""

    limits = ConnectionLimits(max_idle_s=WAIT_S, max_linger_s=WAIT_S)


def limited(base: type[Connection] = Patient, /, **limits: Any) -> type[Connection]:
    """Connections with these limits."""
    return type("Limited", (base,), {"limits": replace(base.limits, **limits)})


class QuickServer(Server):
    """Looks every 10 ms, and not only every 100 ms, whether it is to stop. An application without a lifespan may run in
    it."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        budget = ByteBudget(1 << 20)
        self.lifespan.state |= {
            "shutdown": Shutdown(),
            "request_queue": RequestQueue(LoopLag(), budget),
            "slow_readers": SlowReaders(WAIT_S, budget),
        }
        await super().startup(sockets)

    async def main_loop(self) -> None:
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            await asyncio.sleep(0.01)


@contextmanager
def running(loop: str, protocol: type[Connection] = Patient) -> Iterator[Running]:
    small = Small()
    options: dict[str, Any] = {"loop": loop, "http": protocol, "lifespan": "off", "log_config": None, "ws": "none"}
    config = uvicorn.Config(small, **options)
    config.timeout_keep_alive = 600
    server = QuickServer(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield Running(server, listener.getsockname(), small, thread)
        finally:
            small.goes_on.set()
            server.should_exit = True
            thread.join()


def get(path: str = "/", *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


def post(path: str, length: int, *fields: str) -> bytes:
    """The header of a POST request."""
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *fields, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """Reads one response with its header. Raises EOFError, with the bytes received, if it is incomplete."""
    found = b""
    while b"\r\n\r\n" not in found or len(found.partition(b"\r\n\r\n")[2]) < _announced(found):
        piece = connection.recv(1 << 16)
        if not piece:
            raise EOFError(found)
        found += piece
    return found


def _announced(head: bytes) -> int:
    return int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)


def pour(connection: socket.socket, piece: bytes, most: int | None = None, pause_s: float = 0.0) -> None:
    """Sends `piece` repeatedly, at most `most` times. Raises ConnectionError once the other end has closed."""
    until, sent = time.monotonic() + WAIT_S, 0
    while sent != most and time.monotonic() < until:
        connection.sendall(piece)
        sent += 1
        time.sleep(pause_s)


def rest(connection: socket.socket) -> bytes:
    """Reads until the other end closes. Raises ConnectionError if it resets the connection."""
    found = b""
    while piece := connection.recv(1 << 16):
        found += piece
    return found
