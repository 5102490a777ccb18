"""The admin port responds while the event loop is blocked, and reports it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import WAIT_S, becomes
from shared_fixtures import Service, serving

from app.api.admin_server import MAX_CONNECTIONS
from app.http.api_keys import new_key
from app.settings import Settings, SettingsError

pytestmark = pytest.mark.slow


@contextmanager
def administered(bundles: Path, **settings: Any) -> Iterator[tuple[Service, str]]:
    """The service, and the address of its admin port."""
    with serving(bundles, admin_port=0, **settings) as service:
        yield service, f"http://127.0.0.1:{service.state.admin.port}"


def until_ready(url: str) -> None:
    assert becomes(lambda: httpx.get(f"{url}/ready").status_code == 200)


def test_admin_responses_equal_those_of_the_main_port(bundle_folder: Path) -> None:
    with administered(bundle_folder) as (service, url):
        until_ready(url)
        for path in "/health", "/ready":
            here, there = httpx.get(url + path), service.get(path)
            assert (here.status_code, here.json()) == (there.status_code, there.json())
        figures = httpx.get(f"{url}/metrics")
        assert "interlinear_event_loop_lag_seconds_bucket" in figures.text
        assert figures.headers["content-type"] == service.get("/metrics").headers["content-type"]
        assert httpx.head(f"{url}/health").status_code == 200
        assert httpx.get(f"{url}/translate").status_code == 404
        assert httpx.post(f"{url}/health").status_code == 405


def test_admin_server_responds_while_the_event_loop_is_busy_and_reports_long_delays(bundle_folder: Path) -> None:
    begun, ends = threading.Event(), threading.Event()

    async def block() -> None:
        begun.set()
        ends.wait(5 * WAIT_S)

    with administered(bundle_folder) as (service, url):
        admin = service.state.admin
        admin.max_blocked_s = WAIT_S
        blocking = threading.Thread(target=service.run, args=[block()])
        blocking.start()
        try:
            assert begun.wait(WAIT_S)
            assert httpx.get(f"{url}/health").status_code == 200
            time.sleep(1.5)
            admin.max_blocked_s = 0.5
            found = httpx.get(f"{url}/health")
            assert found.status_code == 503 and "event loop" in found.json()["detail"]
            assert httpx.get(f"{url}/metrics").status_code == 200
        finally:
            ends.set()
            blocking.join()
        assert becomes(lambda: httpx.get(f"{url}/health").status_code == 200)
        lag = service.get("/metrics").text.split("interlinear_event_loop_lag_seconds_sum ")[1]
        assert float(lag.split()[0]) > 1


def test_admin_server_is_not_ready_before_the_workers(bundle_folder: Path, tmp_path: Path) -> None:
    async def never() -> None:
        await asyncio.sleep(0)

    with administered(bundle_folder) as (service, url):
        until_ready(url)
        engine = service.state.deployments.current.engine
        for slot in engine._slots:
            slot.state = "starting"
        assert httpx.get(f"{url}/ready").status_code == 503
        for slot in engine._slots:
            slot.state = "working"


def test_admin_metrics_require_a_key_if_the_service_does_and_use_up_no_rate_limit(
    bundle_folder: Path, tmp_path: Path
) -> None:
    key, line = new_key("alice")
    (tmp_path / "keys").write_text(f"{line} requests=1/hour\n")
    known = {"Authorization": f"Bearer {key}"}
    with administered(bundle_folder, api_keys_file=tmp_path / "keys") as (service, url):
        assert httpx.get(f"{url}/metrics").status_code == service.get("/metrics").status_code == 401
        for _ in range(3):
            assert httpx.get(f"{url}/metrics", headers=known).status_code == 200
            assert service.request("GET", "/metrics", headers=known).status_code == 200
        hello = {"text": "Hello.", "source": "en", "target": "fr"}
        statuses = [service.request("POST", "/translate", json=hello, headers=known).status_code for _ in range(2)]
        assert statuses == [200, 429]


def test_idle_clients_cannot_block_the_admin_server_for_long(bundle_folder: Path) -> None:
    with administered(bundle_folder) as (service, url), ExitStack() as stack:
        service.state.admin.config.timeout_keep_alive = 0.5
        port = int(url.rpartition(":")[2])
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(24)]
        assert httpx.get(f"{url}/health").status_code == 200
        for client in silent:
            client.settimeout(WAIT_S)
            assert client.recv(1) == b""


def test_connections_above_the_limit_are_refused_until_others_end(bundle_folder: Path) -> None:
    with administered(bundle_folder) as (_, url):
        port = int(url.rpartition(":")[2])
        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert httpx.get(f"{url}/health").status_code == 503
        assert becomes(lambda: httpx.get(f"{url}/health").status_code == 200)


def test_a_port_in_use_is_reported_in_one_line(bundle_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"^INTERLINEAR_ADMIN_PORT={port}: cannot listen on 127.0.0.1: "):
            serving(bundle_folder, admin_port=port)


def test_admin_server_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().admin_port is None
    for ignored in "", "tcp://10.0.0.1:9000":
        monkeypatch.setenv("INTERLINEAR_ADMIN_PORT", ignored)
        assert Settings().admin_port is None
