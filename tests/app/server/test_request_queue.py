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
from servers import WAIT_S, becomes
from shared_fixtures import listening
from starlette.types import Receive, Scope, Send

from app.errors import Overloaded
from app.http.json_body import mark_read
from app.runtime.byte_budgets import ByteBudget
from app.runtime.event_loop_lag import LoopLag
from app.runtime.shutdown import Shutdown
from app.server.connection import Connection
from app.server.request_queue import MAX_PER_TURN, MIN_PER_TURN, RequestQueue, UnreadBody
from app.server.slow_readers import SlowReaders
from app.server.state import APPLICATION, AppState, state_of

pytestmark = pytest.mark.slow

GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def make_queue(unread: int = 1 << 20, **options: Any) -> RequestQueue:
    return RequestQueue(LoopLag(), ByteBudget(unread), **options)


def begin(queue: RequestQueue, start: Callable[[], None]) -> None:
    """Starts a request, as a connection does."""
    if queue.try_start():
        start()
    else:
        queue.wait(start)


# ---- The order


def test_limited_number_of_requests_starts_per_turn_in_order() -> None:
    async def turns() -> list[list[int]]:
        queue, begun, found = make_queue(turn_s=60.0), list[int](), list[list[int]]()
        for number in range(3 * MAX_PER_TURN):
            begin(queue, partial(begun.append, number))
        while len(begun) < 3 * MAX_PER_TURN:
            found.append(list(begun))
            await asyncio.sleep(0)
        return [*found, begun]

    found = asyncio.run(turns())
    assert len(found[0]) == MAX_PER_TURN and found[-1] == list(range(3 * MAX_PER_TURN))
    assert all(len(after) - len(before) <= MAX_PER_TURN for before, after in pairwise(found))


def test_fewer_requests_start_while_turns_are_long() -> None:
    async def scenario() -> list[int]:
        queue, begun, found = make_queue(turn_s=60.0), list[int](), list[int]()
        for number in range(8 * MAX_PER_TURN):
            begin(queue, partial(begun.append, number))
        queue.turn_s = -1.0  # now every turn is long
        while queue.max_starts > MIN_PER_TURN:  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
        queue.turn_s = 60.0  # now every turn is short
        while len(begun) < 8 * MAX_PER_TURN:
            found.append(queue.max_starts)
            await asyncio.sleep(0)
        return found

    found = asyncio.run(scenario())
    assert found == [MIN_PER_TURN + number for number in range(len(found))] and len(found) > 10


def test_request_that_would_wait_too_long_is_refused() -> None:
    async def refused() -> float | None:
        queue = make_queue(turn_s=60.0, max_delay_s=60.0)
        for _ in range(2 * MAX_PER_TURN):
            begin(queue, lambda: None)
        queue.check(queue.delay_s)  # it would not
        queue.max_delay_s = 0.001
        time.sleep(0.01)  # noqa: ASYNC251  # nothing begins meanwhile
        with pytest.raises(Overloaded) as error:
            queue.check(queue.delay_s)
        return error.value.retry_after_s

    assert asyncio.run(refused())


def test_body_over_the_budget_is_discarded() -> None:
    budget = ByteBudget(100)
    first, second = UnreadBody(budget), UnreadBody(budget)
    assert first.try_reserve(60) and not second.try_reserve(60) and not second.try_reserve(1)
    with pytest.raises(Overloaded):
        second.read(0)
    first.read(60)
    assert budget.used == 0 and first.try_reserve(90)


# ---- Connections


class Application:
    """GET /block: the event loop waits to be told to go on. GET: how long it waited to begin, in ms. POST: reads when
    told to. `begun`: the paths of requests that have. `connections`: those of the server that it runs in.
    """

    connections: set[Any]

    def __init__(self) -> None:
        self.request_queue, self.slow_readers = make_queue(), SlowReaders(30, ByteBudget(1 << 20))
        self.reads, self.goes_on = threading.Event(), threading.Event()
        self.begun = list[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        waited, status = time.perf_counter() - state_of(scope).arrived, 200
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
        state = scope["state"][APPLICATION] = AppState()
        state.request_queue, state.slow_readers = self.request_queue, self.slow_readers
        state.shutdown = Shutdown()
        self.request_queue.lag.start()
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        self.request_queue.lag.stop()
        await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def running(application: Any, loop: str = "uvloop") -> Iterator[tuple[str, int]]:
    config = uvicorn.Config(application, http=Connection, loop=loop, log_config=None, ws="none")
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
    """The number of connections with bytes that the server has not read yet."""
    poller = poll()
    for connection in list(application.connections):
        poller.register(connection.transport.get_extra_info("socket"), POLLIN)
    return len(poller.poll(0))


def answered(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of a short response."""
    found = b""
    while not found.partition(b"\r\n\r\n")[2]:
        piece = connection.recv(1 << 16)
        assert piece, found
        found += piece
    return int(found.split()[1]), found.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_health_check_waits_for_no_other_request(loop: str) -> None:
    """It arrives last, after five hundred others, while the event loop can read none of them."""
    application = Application()
    application.request_queue.turn_s = WAIT_S  # a busy machine may take longer than a turn to read what comes in one
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
    assert len(order) == 501 and order.index("/health") < 4 * MAX_PER_TURN


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_waiting_time_counts_from_when_the_request_could_have_been_read(loop: str) -> None:
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


def test_unread_bodies_stay_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    came, try_reserve = list[int](), UnreadBody.try_reserve

    def counted(body: UnreadBody, size: int) -> bool:
        came.append(size)
        return try_reserve(body, size)

    def has_come(bodies: int) -> bool:
        return sum(came) == bodies * 60_000

    monkeypatch.setattr(UnreadBody, "try_reserve", counted)
    application = Application()
    application.request_queue.unread = budget = ByteBudget(200_000)
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


def test_unread_bytes_are_released_when_the_client_leaves() -> None:
    application = Application()
    with running(application) as address:
        with socket.create_connection(address) as connection:
            connection.sendall(POST % (b"/", 60_000) + bytes(50_000))
            assert becomes(lambda: application.request_queue.unread.used == 50_000)
        assert becomes(lambda: application.request_queue.unread.used == 0)
        application.reads.set()


def test_late_request_is_refused_with_retry_after(bundle_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestQueue, "delay_s", 99.2)
    body = b'{"text": "Hello.", "source": "en", "target": "fr"}'
    with listening(bundle_folder) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
            head = (POST % (b"/translate", len(body))).replace(b"Host", b"Content-Type: application/json\r\nHost")
            connection.sendall(head + body)
            found = connection.recv(1 << 16)
    assert found.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 100\r\n" in found
