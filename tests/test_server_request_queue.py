"""Requests start in order: a limited number per turn of the event loop, probes at once, late ones not at all."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from select import POLLIN, poll, select
from typing import Any

import pytest
import uvicorn
from conftest import listening
from servers import WAIT_S, becomes
from starlette.types import Receive, Scope, Send

from app.errors import Overloaded
from app.http.json_body import mark_read
from app.runtime.byte_budgets import ByteBudget
from app.runtime.event_loop_lag import LoopLag
from app.server.queued_protocol import IntakeProtocol
from app.server.request_queue import FEWEST, MOST, Intake, Unread
from app.server.slow_readers import Sending

GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def intake(unread: int = 1 << 20, **options: Any) -> Intake:
    return Intake(LoopLag(), ByteBudget(unread), **options)


def begin(begins: Intake, start: Callable[[], None]) -> None:
    """As a connection does."""
    if begins.begins():
        start()
    else:
        begins.wait(start)


# ---- The order


def test_so_many_begin_in_a_turn_of_the_event_loop_and_all_in_order() -> None:
    async def turns() -> list[list[int]]:
        begins, begun, found = intake(turn_s=60.0), list[int](), list[list[int]]()
        for number in range(3 * MOST):
            begin(begins, partial(begun.append, number))
        while len(begun) < 3 * MOST:
            found.append(list(begun))
            await asyncio.sleep(0)
        return [*found, begun]

    found = asyncio.run(turns())
    assert len(found[0]) == MOST and found[-1] == list(range(3 * MOST))
    assert all(len(after) - len(before) <= MOST for before, after in pairwise(found))


def test_fewer_begin_where_turns_are_long_and_more_again_where_they_are_short() -> None:
    async def at_once() -> list[int]:
        begins, begun, found = intake(turn_s=60.0), list[int](), list[int]()
        for number in range(8 * MOST):
            begin(begins, partial(begun.append, number))
        begins.turn_s = -1.0  # now every turn is long
        while begins.at_once > FEWEST:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
        begins.turn_s = 60.0  # now every turn is short
        while len(begun) < 8 * MOST:
            found.append(begins.at_once)
            await asyncio.sleep(0)
        return found

    found = asyncio.run(at_once())
    assert found == [FEWEST + number for number in range(len(found))] and len(found) > 10


def test_who_would_wait_for_too_long_is_refused() -> None:
    async def refused() -> float | None:
        begins = intake(turn_s=60.0, latest_s=60.0)
        for _ in range(2 * MOST):
            begin(begins, lambda: None)
        begins.check(begins.delay_s)  # it would not
        begins.latest_s = 0.001
        time.sleep(0.01)  # noqa: ASYNC251  # nothing begins meanwhile
        with pytest.raises(Overloaded) as error:
            begins.check(begins.delay_s)
        return error.value.retry_after_s

    assert asyncio.run(refused())


def test_of_a_body_for_which_there_is_no_room_nothing_more_is_kept() -> None:
    budget = ByteBudget(100)
    first, second = Unread(budget), Unread(budget)
    assert first.keeps(60) and not second.keeps(60) and not second.keeps(1)
    with pytest.raises(Overloaded):
        second.read(0)
    first.read(60)
    assert budget.used == 0 and first.keeps(90)


# ---- Connections


class Application:
    """GET /block: the event loop waits to be told to go on. GET: how long it waited to begin, in ms. POST: reads when
    told to. `begun`: the paths of requests that have. `connections`: those of the server that it runs in.
    """

    connections: set[Any]

    def __init__(self) -> None:
        self.intake, self.sending = intake(), Sending(30, ByteBudget(1 << 20))
        self.reads, self.goes_on = threading.Event(), threading.Event()
        self.begun = list[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        waited, status = time.perf_counter() - scope["state"]["arrived"], 200
        self.begun.append(scope["path"])
        if scope["path"] == "/block":
            self.goes_on.wait(WAIT_S)
        if scope["method"] == "POST":
            await asyncio.to_thread(self.reads.wait)
            try:
                more = True
                while more:
                    message = await receive()
                    mark_read(scope, len(message.get("body", b"")))
                    more = message.get("more_body", False)
            except Overloaded:
                status = 503
        body = b"%d" % (1000 * waited)
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] |= {"intake": self.intake, "sending": self.sending}
        self.intake.lag.start()
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        self.intake.lag.stop()
        await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def running(application: Any, loop: str = "uvloop") -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(application, http=IntakeProtocol, loop=loop, log_config=None, ws="none")
    server = uvicorn.Server(config)
    application.connections = server.server_state.connections
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def unread(application: Application) -> int:
    """How many connections have something that the server has not read yet."""
    poller = poll()
    for connection in list(application.connections):
        poller.register(connection.transport.get_extra_info("socket"), POLLIN)
    return len(poller.poll(0))


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of a short answer."""
    found = b""
    while not found.partition(b"\r\n\r\n")[2]:
        piece = connection.recv(1 << 16)
        assert piece, found
        found += piece
    return int(found.split()[1]), found.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_probe_waits_for_no_other_request(loop: str) -> None:
    """It comes last, after five hundred others, while the event loop can read none of them."""
    application = Application()
    with running(application, loop) as address, ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, timeout=WAIT_S)) for _ in range(502)]
        for connection in connections:
            connection.sendall(GET % b"/first")
            answered(connection)
        *others, block, probe = connections
        block.sendall(GET % b"/block")
        assert becomes(lambda: "/block" in application.begun)
        for connection in others:
            connection.sendall(GET % b"/other")
        probe.sendall(GET % b"/health")
        assert becomes(lambda: unread(application) == 501)
        application.goes_on.set()
        assert answered(probe)[0] == 200
        for connection in others:
            answered(connection)
        order = application.begun[application.begun.index("/block") + 1 :]
    assert len(order) == 501 and order.index("/health") < 4 * MOST


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_the_time_of_a_request_counts_from_when_it_could_have_been_read(loop: str) -> None:
    application = Application()
    with running(application, loop) as address, ExitStack() as stack:
        busy, other = (stack.enter_context(socket.create_connection(address, timeout=WAIT_S)) for _ in range(2))
        for connection in (other, busy):
            connection.sendall(GET % b"/short")
            answered(connection)
        busy.sendall(GET % b"/block")
        assert becomes(lambda: "/block" in application.begun)
        other.sendall(GET % b"/other")
        assert becomes(lambda: unread(application) == 1)
        time.sleep(0.8)
        application.goes_on.set()
        assert int(answered(other)[1]) >= 500


def test_what_has_come_of_bodies_that_nobody_reads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    came, keeps = list[int](), Unread.keeps

    def counted(body: Unread, size: int) -> bool:
        came.append(size)
        return keeps(body, size)

    def has_come(bodies: int) -> bool:
        return sum(came) == bodies * 60_000

    monkeypatch.setattr(Unread, "keeps", counted)
    application = Application()
    application.intake.unread = budget = ByteBudget(200_000)
    with running(application) as address, ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(address, timeout=WAIT_S)) for _ in range(20)]
        for number, connection in enumerate(connections, 1):
            connection.sendall(POST % (b"/", 60_001) + bytes(60_000))
            assert becomes(partial(has_come, number))
        assert becomes(lambda: len(application.begun) == 20)
        assert 100_000 <= budget.used <= budget.max_bytes
        application.reads.set()
        assert becomes(lambda: len(select(connections, [], [], 1)[0]) >= 17)
        refused = select(connections, [], [], 1)[0]
        assert len(refused) == 17 and all(answered(connection)[0] == 503 for connection in refused)
        for connection in connections:
            if connection not in refused:
                connection.sendall(b"a")
                assert answered(connection)[0] == 200
        assert becomes(lambda: budget.used == 0)


def test_what_was_not_read_of_a_body_is_given_back_when_the_client_leaves() -> None:
    application = Application()
    with running(application) as address:
        with socket.create_connection(address) as connection:
            connection.sendall(POST % (b"/", 60_000) + bytes(50_000))
            assert becomes(lambda: application.intake.unread.used == 50_000)
        assert becomes(lambda: application.intake.unread.used == 0)
        application.reads.set()


def test_a_late_request_is_refused_with_the_time_to_retry_after(
    bundle_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Intake, "delay_s", 99.2)
    body = b'{"text": "Hello.", "source": "en", "target": "fr"}'
    with listening(bundle_folder) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            head = (POST % (b"/translate", len(body))).replace(b"Host", b"Content-Type: application/json\r\nHost")
            connection.sendall(head + body)
            found = connection.recv(1 << 16)
    assert found.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 100\r\n" in found
