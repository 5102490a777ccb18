"""Answers on their way: who takes nothing is cut off, who takes little is not, and what waits is counted."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

import pytest
from servers import becomes
from starlette.types import Receive, Scope, Send
from test_server_request_queue import GET, Application, running

from app.runtime.byte_budgets import Room
from app.server.slow_readers import Sending

LENGTH = 20_000_000
ASKED = GET % b"/long"


class Long(Application):
    """GET: an answer of so many bytes, as it comes from `app.http.held_bytes`."""

    def __init__(self, limit_s: float) -> None:
        super().__init__()
        self.room = Room(1 << 30)
        self.sending = Sending(limit_s, self.room)
        self.is_done = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self.sending.start()
            await self._live(scope, receive, send)
            self.sending.stop()
            return
        headers = [(b"content-length", b"%d" % LENGTH)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for _ in range(LENGTH // 50_000):
            await send({"type": "http.response.body", "body": bytes(50_000), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.is_done = True


def asking(address: tuple[str, int]) -> socket.socket:
    """A client with little room for what it does not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    connection.settimeout(20)
    connection.connect(address)
    connection.sendall(ASKED)
    return connection


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_client_that_takes_nothing_is_cut_off_and_what_waited_for_it_is_given_back(loop: str) -> None:
    application = Long(limit_s=1.0)
    with running(application, loop) as address, asking(address) as connection:
        assert becomes(lambda: application.is_done)
        assert application.room.peak > 0
        assert becomes(lambda: application.room.taken == 0)
        taken = 0
        with suppress(ConnectionError):
            while piece := connection.recv(1 << 20):
                taken += len(piece)
        assert taken < LENGTH


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_client_that_takes_little_at_a_time_is_not(loop: str) -> None:
    application = Long(limit_s=2.0)
    with running(application, loop) as address, asking(address) as connection:
        until, taken = time.monotonic() + 5, 0
        while time.monotonic() < until:
            taken += len(connection.recv(30_000))
            time.sleep(0.1)
        while taken < LENGTH:
            piece = connection.recv(1 << 20)
            assert piece
            taken += len(piece)
    assert taken > LENGTH


def test_a_client_that_asked_for_nothing_is_left_alone() -> None:
    with running(Long(limit_s=0.2)) as address, socket.create_connection(address, timeout=20) as connection:
        time.sleep(1)
        connection.sendall(ASKED)
        assert connection.recv(8) == b"HTTP/1.1"
