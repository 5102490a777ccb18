"""Request headers: endless ones are refused, missing ones time out, and bodies are unaffected."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep

import pytest
import uvicorn
from servers import WAIT_S, QuickServer, answer, pour
from starlette.types import Receive, Scope, Send

from app.server.header_limits import MAX_HEAD_BYTES, HeaderLimitsProtocol

pytestmark = pytest.mark.slow

POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


begun = threading.Semaphore(0)
"""Released by each request that begins."""


async def length_of_body(scope: Scope, receive: Receive, send: Send) -> None:
    begun.release()
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"%d" % length
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def connected(
    patience_s: float = 600, protocol: type[HeaderLimitsProtocol] = HeaderLimitsProtocol
) -> Iterator[socket.socket]:
    """A connection to a server that waits this long for a header."""
    config = uvicorn.Config(length_of_body, http=protocol, lifespan="off", log_config=None)
    config.timeout_keep_alive = patience_s  # type: ignore[assignment]  # whole seconds are long in a test
    server = QuickServer(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            with socket.create_connection(listener.getsockname(), timeout=WAIT_S) as connection:
                yield connection
        finally:
            server.should_exit = True
            thread.join()


def ended(connection: socket.socket) -> bytes:
    """Reads until the other end closes the connection."""
    found = b""
    try:
        while piece := connection.recv(1 << 16):
            found += piece
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"GET /", b"a" * 1_000),
        (b"GET / HTTP/1.1\r\nA: ", b"a" * 1_000),
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n" * 100),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n" * 100),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 1_000),
    ],
    ids=["address", "header", "headers", "trailers", "size of a chunk"],
)
def test_endless_header_is_refused(beginning: bytes, piece: bytes) -> None:
    with connected() as connection:
        connection.sendall(beginning)
        with pytest.raises(ConnectionError):
            pour(connection, piece)


def test_too_long_header_is_refused() -> None:
    beginning = b"GET / HTTP/1.1\r\nA: "
    with connected() as connection:
        connection.sendall(beginning + b"a" * (MAX_HEAD_BYTES // 2))
        sleep(0.1)
        # One more than may be: nothing is left unread at the refusal, which the kernel would make a reset of.
        connection.sendall(b"a" * (MAX_HEAD_BYTES // 2 - len(beginning) + 1))
        found = ended(connection)
    assert found.startswith(b"HTTP/1.1 400 ") and found.endswith(b"The request head is too long.")


@pytest.mark.parametrize("beginning", [b"", POST, b"\r\n"], ids=["nothing", "a half", "an empty line"])
def test_header_that_does_not_arrive_times_out(beginning: bytes) -> None:
    with connected(patience_s=0.3) as connection:
        connection.sendall(beginning)
        assert ended(connection) == b""


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: identity",
        POST + b"Transfer-Encoding: identity, chunked",
        POST + b"Transfer-Encoding: gzip, chunked",
        POST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 1",
        POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked",
        POST + b"Transfer-Encoding: identity",
    ],
)
def test_body_whose_end_others_may_see_elsewhere_is_refused(head: bytes) -> None:
    """The request does not begin, and neither does one that its body may hold."""
    while begun.acquire(blocking=False):  # those of other tests
        pass
    with connected() as connection:
        connection.sendall(head + b"\r\n\r\n1\r\na\r\n0\r\n\r\n")
        found = ended(connection)
        assert not begun.acquire(blocking=False)
    assert found.startswith(b"HTTP/1.1 400 ") and b"connection: close" in found and found.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked"])
def test_chunked_body_is_read(coding: bytes) -> None:
    with connected() as connection:
        connection.sendall(POST + b"Transfer-Encoding: " + coding + b"\r\n\r\n1\r\na\r\n0\r\n\r\n")
        assert answer(connection).endswith(b"1")
    assert begun.acquire(blocking=False)


def test_header_that_arrives_too_slowly_times_out() -> None:
    with connected(patience_s=0.5) as connection, pytest.raises(ConnectionError):
        pour(connection, b"A", pause_s=0.1)


def test_body_may_be_longer_and_slower_than_a_header_and_another_request_may_follow() -> None:
    """Waits that end between requests, as they may if the test is delayed, end nothing here."""
    ended = list[str]()

    class Noting(HeaderLimitsProtocol):
        def _on_timeout(self) -> None:
            ended.append("the wait for a head")

        def timeout_keep_alive_handler(self) -> None:
            ended.append("the wait for more")

    while begun.acquire(blocking=False):  # by requests of other tests
        pass
    with connected(0.2, Noting) as connection:
        for _ in range(2):
            connection.sendall(POST + b"A: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\nContent-Length: 400000\r\n\r\n")
            assert begun.acquire(timeout=WAIT_S)
            ended.clear()
            for _ in range(4):
                sleep(0.1)
                connection.sendall(bytes(99_999))
            sleep(0.1)
            assert ended == []
            connection.sendall(bytes(4))
            assert answer(connection).endswith(b"\r\n\r\n400000")
