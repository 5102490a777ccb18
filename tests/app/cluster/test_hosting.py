"""The service inside a server that another program starts, as Ray Serve does in a replica; without Ray.

`Host` does what Ray Serve 2.60 does in ray/serve/_private/http_util.py and replica.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvicorn.config
from servers import WAIT_S, answer, becomes, get, pour
from starlette.types import Message, Receive, Scope, Send
from uvicorn.lifespan.on import LifespanOn

from app.cluster.hosting import Hosted
from app.engine.launch import InProcessWorker, Launch, Worker
from app.engine.messages import WorkerConfig
from app.http.api_keys import new_key
from app.main import create_app, server_options
from app.server.header_limits import MAX_HEAD_BYTES
from app.services.startup import load_catalogue
from app.settings import Settings

pytestmark = pytest.mark.slow

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


class Host:
    """Runs the lifespan, and then a server of its own, whose application answers below /-/ and adds a request id."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted
        self.scopes: list[Scope] = []
        """Of the requests that reached the host's own application."""
        self.is_listening = threading.Event()
        self.failed = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        lifespan = LifespanOn(uvicorn.Config(self.hosted, lifespan="on", log_config=None))
        await lifespan.startup()
        if lifespan.should_exit:
            self.failed = True
            self.listener.close()
            return
        options: dict[str, Any] = {"factory": True, "lifespan": "off", "access_log": False, "log_config": None}
        self.server = uvicorn.Server(uvicorn.Config(lambda: self, timeout_keep_alive=5, **options))
        serving = asyncio.create_task(self.server.serve(sockets=[self.listener]))
        while not self.server.started:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.01)
        self.is_listening.set()
        await serving
        await lifespan.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-request-id", b"the host's")]
            await send(message)

        await with_id({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
        await with_id({"type": "http.response.body", "body": b"success"})

    def stop(self) -> None:
        if not self.failed:
            self.server.should_exit = True

    def join(self) -> None:
        self._thread.join()


@pytest.fixture
def protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives other servers of this process uvicorn's own protocol back at the end."""
    monkeypatch.setitem(uvicorn.config.HTTP_PROTOCOLS, "auto", uvicorn.config.HTTP_PROTOCOLS["auto"])


@contextmanager
def hosting(bundles: Path, launch: Launch = InProcessWorker, **settings: Any) -> Iterator[Host]:
    chosen = Settings(
        bundles=(bundles,), device="cpu", precision="float32", workers=1, **{"max_wait_ms": 60_000, **settings}
    )
    hosted = Hosted(create_app(chosen, load_catalogue(chosen), launch), server_options(chosen))
    hosted.take_connections()
    host = Host(hosted)
    try:
        yield host
    finally:
        with suppress(AttributeError):  # it has never listened
            host.stop()
        host.join()


@pytest.fixture
def host(bundle_folder: Path, protocols: None) -> Iterator[Host]:
    with hosting(bundle_folder) as host:
        assert host.is_listening.wait(WAIT_S)
        yield host


def test_every_route_finds_the_state_of_the_lifespan(host: Host) -> None:
    with httpx.Client(base_url=host.url) as client:
        for path in (
            "/",
            "/health",
            "/ready",
            "/metrics",
            "/models",
            "/deepl/v2/languages",
            "/libretranslate/languages",
        ):
            assert client.get(path).status_code == 200, path
        assert client.post("/translate", json=HELLO).status_code == 200
        form = {"q": "Hello.", "source": "en", "target": "fr"}
        assert client.post("/libretranslate/translate", json=form).status_code == 200
        assert client.post("/deepl/v2/translate", json={"text": ["Hello."], "target_lang": "FR"}).status_code == 200
    assert host.scopes == []


def test_it_has_started_only_once_a_worker_is_ready(bundle_folder: Path, protocols: None) -> None:
    asked, may_start = threading.Event(), threading.Event()

    def launch(config: WorkerConfig) -> Worker:
        asked.set()
        assert may_start.wait(WAIT_S)
        return InProcessWorker(config)

    with hosting(bundle_folder, launch) as host:
        assert asked.wait(WAIT_S)
        assert not host.is_listening.wait(0.2)
        may_start.set()
        assert host.is_listening.wait(WAIT_S)
        assert httpx.get(f"{host.url}/ready").status_code == 200


def test_worker_that_cannot_start_fails_the_start_with_its_reason(
    bundle_folder: Path, protocols: None, caplog: pytest.LogCaptureFixture
) -> None:
    def launch(config: WorkerConfig) -> Worker:
        raise OSError("there is no room")

    with hosting(bundle_folder, launch) as host:
        host.join()
        assert host.failed
    assert (
        "the service could not start: The workers have died: it could not be started: there is no room" in caplog.text
    )


def test_answer_has_one_request_id_which_is_ours(host: Host) -> None:
    response = httpx.get(f"{host.url}/health", headers={"X-Request-ID": "a client's"})
    [request_id] = response.headers.get_list("x-request-id")
    assert len(request_id) == 16
    assert set(request_id) <= set("0123456789abcdef")


def test_answer_does_not_name_the_server(host: Host) -> None:
    def named() -> list[str]:
        response = httpx.get(f"{host.url}/health")
        assert "date" in response.headers
        return response.headers.get_list("server")

    assert named() == []
    time.sleep(1.1)  # after which uvicorn makes the headers anew
    assert named() == []


def test_forged_address_gives_no_new_rate(bundle_folder: Path, protocols: None) -> None:
    with hosting(bundle_folder, rate_requests="2/hour") as host:
        assert host.is_listening.wait(WAIT_S)
        forged = [{"X-Forwarded-For": f"1.2.3.{number}"} for number in range(4)]
        statuses = [httpx.post(f"{host.url}/translate", json=HELLO, headers=each).status_code for each in forged]
    assert statuses == [200, 200, 429, 429]


def test_trusted_proxy_names_the_client(bundle_folder: Path, protocols: None) -> None:
    with hosting(bundle_folder, rate_requests="1/hour", trusted_proxies="127.0.0.1") as host:
        assert host.is_listening.wait(WAIT_S)
        named = [{"X-Forwarded-For": address} for address in ("1.2.3.4", "1.2.3.5", "1.2.3.4")]
        statuses = [httpx.post(f"{host.url}/translate", json=HELLO, headers=each).status_code for each in named]
    assert statuses == [200, 200, 429]


def test_host_sees_its_own_paths_alone(host: Host) -> None:
    with httpx.Client(base_url=host.url) as client:
        client.get("/-missing")
        client.get("/models")
        assert client.get("/-/healthz").text == "success"
        assert client.get("/-/routes").headers["x-request-id"] == "the host's"
        assert client.post("/translate", json=HELLO).status_code == 200
    assert [scope["path"] for scope in host.scopes] == ["/-/healthz", "/-/routes"]


def test_request_through_the_hosts_server_has_the_state_and_no_second_id(host: Host) -> None:
    """As Ray's own proxy passes it on while HAProxy finds no replica."""

    async def ask(path: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(host.hosted), base_url="http://x") as client:
            return await client.get(path)

    assert host.loop
    response = asyncio.run_coroutine_threadsafe(ask("/ready"), host.loop).result(WAIT_S)
    assert response.status_code == 200
    assert "x-request-id" not in response.headers


def test_root_path_is_that_of_the_settings(bundle_folder: Path, protocols: None) -> None:
    with hosting(bundle_folder, root_path="/mt") as host:
        assert host.is_listening.wait(WAIT_S)
        assert '"/mt"' in httpx.get(f"{host.url}/openapi.json").text
        assert httpx.get(f"{host.url}/-/healthz").text == "success"


def test_balancer_is_told_when_no_worker_runs(host: Host) -> None:
    health = f"{host.url}/-/healthz"
    assert httpx.get(health).status_code == 200
    slot = host.hosted.state.deployments.current.engine._slots[0]
    working, slot.state = slot.state, "dead"
    response = httpx.get(health)
    slot.state = working
    assert (response.status_code, response.text) == (
        503,
        "The workers are loading the bundles and checking their samples.",
    )
    assert httpx.get(health).status_code == 200


def test_balancer_is_told_of_the_shutdown(host: Host) -> None:
    with httpx.Client(base_url=host.url) as client:
        assert client.get("/-/healthz").status_code == 200
        host.hosted.state.shutdown.begun = True
        assert client.get("/-/healthz").status_code == 503


def test_connection_in_use_ends_with_its_next_response_at_the_shutdown(host: Host) -> None:
    with socket.create_connection(host.listener.getsockname(), timeout=WAIT_S) as client:
        client.sendall(get("/health"))
        assert b"connection: close" not in answer(client)
        connections: set[Any] = host.server.server_state.connections
        for connection in list(connections):
            connection.timeout_keep_alive = WAIT_S
            connection.limits = type(connection.limits)(shutdown_idle_s=WAIT_S)
        host.stop()
        assert becomes(lambda: bool(host.hosted.state.shutdown.begun))
        client.sendall(get("/health"))
        found = answer(client)
        assert found.startswith(b"HTTP/1.1 200") and b"connection: close" in found
        assert client.recv(1) == b""
    host.join()


def test_request_that_has_begun_is_answered_at_the_shutdown(
    bundle_folder: Path, protocols: None, gate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    gate.opened.set()
    with hosting(bundle_folder) as host:
        assert host.is_listening.wait(WAIT_S)
        gate.opened.clear()
        gate.entered.clear()
        responses: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: responses.append(httpx.post(f"{host.url}/translate", json=HELLO, timeout=WAIT_S))
        )
        asking.start()
        assert gate.entered.wait(WAIT_S)
        host.stop()
        assert becomes(lambda: bool(host.hosted.state.shutdown.begun))
        gate.opened.set()
        asking.join()
    assert [response.status_code for response in responses] == [200]


def test_endless_head_is_refused(host: Host) -> None:
    with socket.create_connection(host.listener.getsockname(), timeout=WAIT_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        with suppress(ConnectionError):
            pour(client, b"a" * 4096, most=2 * MAX_HEAD_BYTES // 4096)
        assert client.recv(1 << 10).startswith(b"HTTP/1.1 400 ")


def test_head_and_body_come_in_one_piece(host: Host) -> None:
    with socket.create_connection(host.listener.getsockname(), timeout=WAIT_S) as client:
        for _ in range(50):
            client.sendall(get("/health"))
            piece = client.recv(1 << 16)
            assert b"\r\n\r\n" in piece and not piece.endswith(b"\r\n\r\n")


def test_log_has_a_line_for_each_request_without_the_address(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        httpx.post(f"{host.url}/translate", json=HELLO)
        assert becomes(lambda: '"/translate"' in caplog.text)
    [line] = [record.getMessage() for record in caplog.records if '"/translate"' in record.getMessage()]
    assert json.loads(line)["status"] == 200
    assert [record.name for record in caplog.records if "127.0.0.1" in record.getMessage()] == ["httpx"]


def test_keys_are_asked_for(bundle_folder: Path, protocols: None, tmp_path: Path) -> None:
    key, line = new_key("alice")
    (tmp_path / "keys").write_text(line + "\n")
    with hosting(bundle_folder, api_keys_file=tmp_path / "keys") as host:
        assert host.is_listening.wait(WAIT_S)
        ask: Callable[..., httpx.Response] = lambda **more: httpx.post(f"{host.url}/translate", json=HELLO, **more)  # noqa: E731
        assert ask().status_code == 401
        assert ask(headers={"Authorization": f"Bearer {key}"}).status_code == 200
