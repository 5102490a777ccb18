"""The end of a connection: a response always arrives, and clients that still listen are distinguished from those that
left."""

from __future__ import annotations

import gc
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from servers import WAIT_S, Patient, answer, becomes, get, limited, on_both_loops, post, pour, rest, running
from shared_fixtures import listening

from app.http.api_keys import new_key
from app.runtime.rate_limits import Rate
from app.server.connection import Connection

pytestmark = pytest.mark.slow

MEGABYTE = bytes(1 << 20)


def refused(connection: socket.socket, head: bytes, body: bytes) -> bytes:
    """The response to a client that reads it after sending everything, as most do; and whatever follows it."""
    connection.sendall(head)
    for start in range(0, len(body), 1 << 18):
        connection.sendall(body[start : start + (1 << 18)])
        time.sleep(0.01)
    return rest(connection)


# ---- A body that is not read


@on_both_loops
@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_a_client_refused_before_its_body_is_read_gets_the_response(loop: str, connection: str) -> None:
    body = MEGABYTE * 4
    with running(loop) as server, server.connect() as client:
        found = refused(client, post("/elsewhere", len(body), f"Connection: {connection}"), body)
    head, _, content = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404 ") and b"connection: close" in head
    assert content == b"refused"


@on_both_loops
def test_a_client_refused_while_sending_chunks_gets_the_response(loop: str) -> None:
    head = b"POST /elsewhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with running(loop) as server, server.connect() as client:
        found = refused(client, head, b"".join(b"100000\r\n" + MEGABYTE + b"\r\n" for _ in range(4)) + b"0\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 404 ")


@on_both_loops
def test_connection_with_a_short_unread_body_is_kept_and_the_body_is_no_request(loop: str) -> None:
    with running(loop) as server, server.connect() as client:
        client.sendall(post("/elsewhere", 50_000))
        assert b"connection: close" not in answer(client)
        client.sendall(bytes(50_000) + get())
        assert answer(client).endswith(b"answer")


@on_both_loops
def test_waiting_for_the_rest_of_a_short_body_is_limited(loop: str) -> None:
    with running(loop) as server, server.connect() as client:
        client.sendall(post("/elsewhere", 50_000))
        answer(client)
        server.set_patience(0.1)
        client.sendall(b"a")
        assert rest(client) == b""


@on_both_loops
def test_a_refused_client_that_expects_100_continue_sends_no_body(loop: str) -> None:
    with running(loop) as server, server.connect() as client:
        client.sendall(post("/elsewhere", 10, "Expect: 100-continue"))
        found = rest(client)
    assert found.startswith(b"HTTP/1.1 404 ") and b"connection: close" in found


@on_both_loops
def test_discarded_part_of_an_endless_body_is_limited(loop: str) -> None:
    with running(loop, limited(max_dropped_bytes=1 << 20)) as server, server.connect() as client:
        client.sendall(post("/elsewhere", 1 << 40))
        with pytest.raises(ConnectionError):
            pour(client, MEGABYTE, most=64, pause_s=0.01)


@on_both_loops
@pytest.mark.parametrize(("limit", "pause_s"), [("max_idle_s", 0.2), ("max_linger_s", 0.05)])
def test_body_that_stops_arriving_times_out(loop: str, limit: str, pause_s: float) -> None:
    with running(loop, limited(**{limit: 0.1})) as server, server.connect() as client:
        client.sendall(post("/elsewhere", 1 << 20))
        assert answer(client).endswith(b"refused")
        with pytest.raises(ConnectionError):
            pour(client, b"a", pause_s=pause_s)
        assert becomes(lambda: not server.server.server_state.connections)


@on_both_loops
def test_request_that_was_read_ends_without_a_wait(loop: str) -> None:
    with running(loop) as server, server.connect() as client:
        client.sendall(post("/read", 5, "Connection: close") + b"12345")
        assert rest(client).endswith(b"\r\n\r\n5")
        assert becomes(lambda: not server.server.server_state.connections)


JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("settings", "refusals"),
    [
        (
            {},
            [
                (404, "/nothing", JSON),
                (405, "/languages", JSON),
                (413, "/translate", JSON),
                (415, "/translate", "Content-Type: text/plain"),
                (415, "/translate/file", JSON),
                (400, "/libretranslate/translate", JSON),
                (413, "/deepl/v2/translate", JSON),
                (400, "/deepl/v2/document", JSON),
            ],
        ),
        # A key may be in the body of /deepl/v2/translate.
        (
            {"api_keys_file": "keys.txt"},
            [(401, "/translate", JSON), (403, "/deepl/v2/document", JSON), (413, "/deepl/v2/translate", JSON)],
        ),
        ({"rate_requests": Rate.parse("1/day")}, [(413, "/translate", JSON), (429, "/translate", JSON)]),
    ],
    ids=["anyone", "with keys", "with rates"],
)
def test_refusals_of_every_api_reach_the_client(
    bundle_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    refusals: list[tuple[int, str, str]],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text(new_key("ann")[1])
    body = MEGABYTE * 5
    with listening(bundle_folder, Patient, **settings) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        for status, path, field in refusals:
            with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
                found = refused(client, post(path, len(body), field, "Connection: close"), body)
            assert found.startswith(b"HTTP/1.1 %d " % status), path


# ---- A client that has ended its side


def noting_ends(ended: list[bool], **limits: Any) -> type[Connection]:
    """Connections that append to `ended` when they notice that a client half-closed."""

    class Noting(Patient):
        def eof_received(self) -> bool:  # type: ignore[override]
            ended.append(may_listen := super().eof_received())
            return may_listen

    return limited(Noting, **limits)


@on_both_loops
@pytest.mark.parametrize("field", ["Connection: close", "Connection: keep-alive"])
def test_half_closed_client_gets_its_response(loop: str, field: str) -> None:
    ended = list[bool]()
    with running(loop, noting_ends(ended, half_closed_s=WAIT_S)) as server, server.connect() as client:
        client.sendall(get("/slow", field))
        client.shutdown(socket.SHUT_WR)
        assert becomes(lambda: bool(ended))
        server.app.goes_on.set()
        found = rest(client)
    assert found.startswith(b"HTTP/1.1 200 ") and found.endswith(b"answer")


@on_both_loops
@pytest.mark.parametrize(("version", "interim"), [("1.0", b""), ("1.1", b"HTTP/1.1 100 Continue\r\n\r\n")])
def test_half_closed_client_gets_even_a_late_response(loop: str, version: str, interim: bytes) -> None:
    """The server polls whether it still listens, and believes it each time."""
    looks = list[bool]()

    class Noting(Patient):
        def _is_reset(self) -> bool:
            looks.append(found := super()._is_reset())
            return found

    with running(loop, limited(Noting, half_closed_s=0.1, probe_interval_s=0.05)) as server, server.connect() as client:
        client.sendall(get("/slow").replace(b"/1.1", b"/" + version.encode()))
        client.shutdown(socket.SHUT_WR)
        assert becomes(lambda: len(looks) > 3)
        server.app.goes_on.set()
        found = rest(client)
    assert found.startswith(interim + b"HTTP/1.1 200 ") and found.endswith(b"answer")
    assert server.app.left == []


@on_both_loops
def test_half_closed_client_gets_all_responses_to_pipelined_requests(loop: str) -> None:
    ended = list[bool]()
    with running(loop, noting_ends(ended)) as server, server.connect() as client:
        client.sendall(get("/slow") + get())
        client.shutdown(socket.SHUT_WR)
        assert becomes(lambda: bool(ended))
        server.app.goes_on.set()
        assert rest(client).count(b"answer") == 2


@on_both_loops
def test_closed_client_is_noticed_before_its_response(loop: str) -> None:
    with running(loop, limited(half_closed_s=0.1, probe_interval_s=0.05)) as server:
        with server.connect() as client:
            client.sendall(get("/slow"))
            assert becomes(lambda: server.app.asked == ["/slow"])
        assert becomes(lambda: server.app.left == ["/slow"])


@on_both_loops
def test_connection_that_is_reset_while_idle_leaves_no_timer(loop: str) -> None:
    """Its handler would find no socket."""
    with running(loop) as server, server.connect() as client:
        client.sendall(get())
        answer(client)
        connections: Any = server.server.server_state.connections
        [connection] = connections
        assert becomes(lambda: connection.timeout_keep_alive_task is not None)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert becomes(lambda: not connections)
        assert becomes(lambda: connection.timeout_keep_alive_task is None)


@on_both_loops
def test_reset_connection_is_detected_without_polling(loop: str) -> None:
    with running(loop, limited(half_closed_s=1000.0)) as server:
        with server.connect() as client:
            client.sendall(get("/slow"))
            assert becomes(lambda: server.app.asked == ["/slow"])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert becomes(lambda: server.app.left == ["/slow"])


@on_both_loops
def test_client_that_half_closes_within_a_request_has_left(loop: str) -> None:
    with running(loop) as server, server.connect() as client:
        client.sendall(post("/read", 10) + b"12345")
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""


# ---- Memory


@on_both_loops
def test_request_leaves_nothing_to_the_garbage_collector(loop: str) -> None:
    gc.disable()
    try:
        with running(loop) as server, server.connect() as client:
            for _ in range(2):  # the connection has the last request until the next one comes
                client.sendall(get())
                answer(client)
            assert becomes(lambda: server.app.cycles[0]() is None)
    finally:
        gc.enable()
