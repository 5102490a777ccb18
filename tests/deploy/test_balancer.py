"""deploy/balancer/haproxy.cfg: in front of real services, and of servers that die at the worst moment."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from servers import WAIT_S, becomes

from benchmarks.balancer import CONFIGURATION, balanced
from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed")]


@contextmanager
def service(bundles: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    settings = {"WORKERS": "1", "DEVICE": "cpu", "TRUSTED_PROXIES": "127.0.0.1"}
    settings |= {"RATE_REQUESTS": "150/hour", "MAX_WAIT_MS": "60000", "CACHE_BYTES": "0"}
    environ = {**os.environ, **{f"INTERLINEAR_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "app", "serve", "--bundles", str(bundles), "--port", str(port)]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ready", timeout=WAIT_S).status_code == 200
    except httpx.TransportError:
        return False


def test_configuration_is_valid() -> None:
    environ = {**os.environ, "BACKENDS": "localhost", "BACKEND_PORT": "8000", "LISTEN": ":8080"}
    checked = subprocess.run(["haproxy", "-c", "-f", str(CONFIGURATION)], env=environ, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr


def test_killed_instance_loses_no_request_and_changes_no_answer(bundle_folder: Path, tmp_path: Path) -> None:
    ports = free_port(), free_port()
    with ExitStack() as stack:
        first, _ = (stack.enter_context(service(bundle_folder, port)) for port in ports)
        balancer = stack.enter_context(balanced(tmp_path, ports))
        address = f"http://127.0.0.1:{balancer.port}"
        # If the only instance that the balancer has found is killed, there is none to send its requests to.
        balancer.wait_until_up(2)

        def translate(number: int) -> str:
            if number == 40 and first.poll() is None:
                first.send_signal(signal.SIGKILL)
            body = {"text": f"Hello {number % 10}.", "source": "en", "target": "fr"}
            # Clients that forge the header share the rate of their address all the same.
            response = client.post("/translate", json=body, headers={"X-Forwarded-For": f"1.2.3.{number % 250}"})
            return str(response.json()["translations"][0]["text"]) if response.status_code == 200 else response.text

        with httpx.Client(base_url=address, timeout=WAIT_S) as client, ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(translate, range(120)))
            alone = [translate(number) for number in range(10)]
            assert answers == [alone[number % 10] for number in range(120)]
            statuses = Counter(clients.map(lambda number: "Over the limit" in translate(number), range(100, 200)))
    assert statuses[True] > 0


@contextmanager
def dying_server() -> Iterator[tuple[int, list[str]]]:
    """A port and the paths asked for there: /ready is answered, any other request ends with its connection."""
    paths: list[str] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                path = connection.recv(1 << 16).split(b" ")[1].decode()
                if path == "/ready":
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                else:
                    paths.append(path)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], paths
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_only_requests_that_change_nothing_are_sent_again(tmp_path: Path) -> None:
    repeated = "/translate", "/translate/stream", "/attention", "/score", "/v2/translate", "/libretranslate/detect"
    sent_once = "/v2/document", "/v3/glossaries", "/v2/glossaries/1", "/libretranslate/translate_file", "/models/reload"
    with dying_server() as (port, paths), balanced(tmp_path, [port]) as balancer:
        address = f"http://127.0.0.1:{balancer.port}"
        assert becomes(lambda: is_ready(address) or httpx.get(f"{address}/ready").status_code == 502)
        paths.clear()
        for path in repeated + sent_once:
            assert httpx.post(address + path, content=b"{}", timeout=WAIT_S).status_code in (502, 503)
    counts = Counter(paths)
    assert all(counts[path] > 1 for path in repeated), counts
    assert all(counts[path] == 1 for path in sent_once), counts
