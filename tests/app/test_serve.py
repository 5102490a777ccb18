"""app/main.py and app/server/: the real server on a real socket: `python -m app serve`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import httpx
import pytest
import uvicorn
from servers import WAIT_S
from shared_fixtures import Gate, make_bundle
from typer.testing import CliRunner

from app.__main__ import cli
from app.engine.launch import InProcessWorker
from app.main import create_app, server_options
from app.server.server import Server
from app.services.startup import load_catalogue
from app.settings import Settings
from benchmarks.soak import workers_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


@contextmanager
def listening(bundles: Path, **options: Any) -> Iterator[str]:
    """The address of a server in a thread of this process."""
    settings = Settings(bundles=(bundles,), device="cpu", precision="float32", workers=1)
    app = create_app(settings, load_catalogue(settings), InProcessWorker)
    server = Server(uvicorn.Config(app, **{**server_options(settings), **options}))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def test_concurrent_clients_get_their_responses_over_a_socket(bundle_folder: Path) -> None:
    async def ask(address: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=WAIT_S) as client:
            bodies = [{**HELLO, "text": f"Hello {number}."} for number in range(16)]
            return await asyncio.gather(*(client.post("/translate", json=body) for body in bodies))

    with listening(bundle_folder) as address:
        responses = asyncio.run(ask(address))
    assert [response.status_code for response in responses] == [200] * 16


def test_closed_connection_cancels_its_sentences(bundle_folder: Path, gate: Gate) -> None:
    body = json.dumps(HELLO).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with listening(bundle_folder) as address:
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + body)
            assert gate.entered.wait(timeout=WAIT_S)
        while 'status="499"' not in httpx.get(f"{address}/metrics").text:
            pass
        gate.opened.set()
        assert httpx.post(f"{address}/translate", json={**HELLO, "text": "x"}, timeout=WAIT_S).status_code == 200
    assert gate.sizes[0] == 1
    assert max(gate.sizes) == 1


def test_health_responds_while_the_engine_is_busy(bundle_folder: Path, gate: Gate) -> None:
    with listening(bundle_folder) as address, httpx.Client(base_url=address, timeout=WAIT_S) as client:
        asking = threading.Thread(target=client.post, args=("/translate",), kwargs={"json": HELLO})
        asking.start()
        assert gate.entered.wait(timeout=WAIT_S)
        assert httpx.get(f"{address}/health").status_code == 200
        assert httpx.get(f"{address}/metrics").status_code == 200
        gate.opened.set()
        asking.join()


def test_page_and_docs_work_behind_a_proxy_that_adds_a_path(bundle_folder: Path) -> None:
    with listening(bundle_folder, root_path="/mt") as address:
        assert 'src="page/main.js"' in httpx.get(f"{address}/").text
        assert httpx.get(f"{address}/page/main.js").status_code == 200
        page = httpx.get(f"{address}/docs").text
        assert "'/mt/openapi.json'" in page
        script = re.search(r'src="/mt(/[^"]+)"', page)
        assert script
        assert httpx.get(f"{address}{script[1]}").status_code == 200


def test_command_serves_until_a_signal(bundle_folder: Path) -> None:
    """Without PyTorch in the front or in an int8 worker, even after a translation and its attention."""
    environ = {**os.environ, "INTERLINEAR_BUNDLES": "nowhere", "INTERLINEAR_PORT": "1"}  # options win
    environ |= {"INTERLINEAR_WROKERS": "2", "INTERLINEAR_WORKERS": "1", "INTERLINEAR_DEVICE": "cpu"}
    environ |= {"INTERLINEAR_PRECISION": "int8", "INTERLINEAR_ISA": "generic"}
    environ |= {"INTERLINEAR_DEADLINE_MS": "600000", "INTERLINEAR_MAX_WAIT_MS": "60000"}  # however busy the machine is
    command = [sys.executable, "-m", "app", "serve", "--bundles", str(bundle_folder), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            log = _until(process.stderr, "Uvicorn running")
            port = int(re.findall(r"Uvicorn running on http://127\.0\.0\.1:(\d+)", log)[0])
            answer, attention = (
                httpx.post(f"http://127.0.0.1:{port}{path}", json=HELLO, timeout=WAIT_S)
                for path in ("/translate", "/attention")
            )
            while (ready := httpx.get(f"http://127.0.0.1:{port}/ready", timeout=WAIT_S)).status_code == 503:
                assert "loading" in ready.text
                sleep(0.05)
            [worker] = workers_of(process.pid)
            loaded, loaded_by_worker = _mapped(process.pid), _mapped(worker)
        finally:
            process.send_signal(signal.SIGTERM)
        log += process.stderr.read()
    assert (answer.status_code, attention.status_code, ready.status_code) == (200, 200, 200)
    assert "INTERLINEAR_WROKERS is not a setting; ignored" in log
    assert f"serving {answer.json()['model']}" in log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["status"] for line in lines if line.get("route") == "/translate"] == [200]
    assert "Hello" not in log
    assert process.returncode == 0
    if loaded:  # what a process has loaded can be seen here
        assert "numpy" in loaded
        assert "kernels-generic" in loaded_by_worker
        assert "torch" not in loaded + loaded_by_worker


def _mapped(process: int) -> str:
    """The files that a process has mapped; nothing where that cannot be seen."""
    maps = Path(f"/proc/{process}/maps")
    return maps.read_text() if maps.exists() else ""


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"INTERLINEAR_BUNDLES": "nowhere"}, "there is no folder nowhere"),
        ({"INTERLINEAR_PRECISION": "int7"}, "INTERLINEAR_PRECISION=int7"),
    ],
)
def test_start_that_cannot_succeed_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(cli, ["serve"])
    assert result.exit_code == 1
    assert result.stderr.startswith("interlinear: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_wrong_checksum_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_bundle(tmp_path / "en-fr")
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    monkeypatch.setenv("INTERLINEAR_BUNDLES", str(tmp_path))
    result = CliRunner().invoke(cli, ["serve"])
    assert result.exit_code == 1
    assert "config.json does not match its checksum" in result.stderr


def _until(lines: Iterable[str], text: str) -> str:
    """The lines up to the first that contains `text`."""
    read = ""
    for line in lines:
        read += line
        if text in line:
            return read
    raise AssertionError(read)
