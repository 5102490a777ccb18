"""Slow readers: a client that reads nothing is cut off, one that reads slowly is not, and unread bytes are counted."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

import pytest
from servers import WAIT_S, becomes
from starlette.types import Receive, Scope, Send

from app.runtime.byte_budgets import ByteBudget
from app.server.slow_readers import SlowReaders
from app.server.tcp_info import bytes_acked
from tests.app.server.test_request_queue import GET, Application, running

pytestmark = pytest.mark.slow

LENGTH = 20_000_000
ASKED = GET % b"/long"


class Long(Application):
    """GET: an answer of so many bytes, as it comes from `app.http.held_bytes`."""

    def __init__(self, limit_s: float, **options: Any) -> None:
        super().__init__()
        self.budget = ByteBudget(1 << 30)
        self.slow_readers = SlowReaders(limit_s, self.budget, **options)
        self.is_done = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self.slow_readers.start()
            await self._live(scope, receive, send)
            self.slow_readers.stop()
            return
        headers = [(b"content-length", b"%d" % LENGTH)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(LENGTH // 50_000):
            await send({"type": "http.response.body", "body": bytes(50_000), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.is_done = True


def asking(address: tuple[str, int]) -> socket.socket:
    """A client with a small receive buffer that does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.settimeout(WAIT_S)
    connection.connect(address)
    connection.sendall(ASKED)
    return connection


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_client_that_reads_nothing_is_disconnected_and_its_memory_released(loop: str) -> None:
    application = Long(limit_s=1.0)
    with running(application, loop) as address, asking(address) as connection:
        assert becomes(lambda: application.is_done)
        assert application.budget.peak > 0
        assert becomes(lambda: application.budget.used == 0)
        taken = 0
        with suppress(ConnectionError):
            while piece := connection.recv(1 << 20):
                taken += len(piece)
        assert taken < LENGTH


class Clock:
    """Lets the test advance the time, and wait for checks."""

    def __init__(self) -> None:
        self.now, self.looks = 0.0, 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now

    def passes(self, seconds: float) -> None:
        """Returns once a check that began afterwards has noticed it."""
        self.now += seconds
        seen = self.looks + 2
        assert becomes(lambda: self.looks >= seen)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_client_that_reads_slowly_is_not_disconnected(loop: str) -> None:
    clock, counts, taken = Clock(), list[int | None](), 0

    def counted(connection: socket.socket) -> int | None:
        counts.append(count := bytes_acked(connection))
        return count

    application = Long(limit_s=0.08, acked=counted, clock=clock)
    with running(application, loop) as address, asking(address) as connection:
        assert becomes(lambda: len(counts) > 2 and counts[-1] == counts[-2])  # no more goes without the client
        for _ in range(5):
            before = counts[-1]
            while counts[-1] == before:
                taken += len(connection.recv(30_000))
                clock.passes(0.0)
            clock.passes(0.06)
        while taken < LENGTH:
            piece = connection.recv(1 << 20)
            assert piece
            taken += len(piece)
    assert taken > LENGTH


def test_client_without_a_pending_response_is_not_disconnected() -> None:
    application = Long(limit_s=0.2)
    with running(application) as address, socket.create_connection(address, timeout=WAIT_S) as connection:
        time.sleep(1)
        application.slow_readers.limit_s = WAIT_S  # the test may be held up before it takes its answer
        connection.sendall(ASKED)
        assert connection.recv(8) == b"HTTP/1.1"
