"""app/server/server.py: At shutdown, a server answers every request it has received; one without file descriptors
lets clients wait."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import uvicorn
from servers import WAIT_S, answer, becomes, get, limited, on_both_loops, rest, running

from app.engine.launch import InProcessWorker
from app.main import create_app, server_options
from app.server.listener import LOG_INTERVAL_S
from app.server.server import Server
from app.services.startup import load_catalogue
from app.settings import Settings
from benchmarks.stopping import stops

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
MANY = 20


@on_both_loops
def test_requests_received_before_shutdown_are_answered_whether_read_accepted_or_neither(loop: str) -> None:
    """All requests arrive while the event loop is busy, and the shutdown signal meanwhile."""
    with running(loop) as server, ExitStack() as opened:
        kept = [opened.enter_context(server.connect()) for _ in range(MANY)]
        for client in kept:
            client.sendall(get())
            assert b"connection: close" not in answer(client)
        busy = opened.enter_context(server.connect())
        busy.sendall(get("/block"))
        assert becomes(lambda: "/block" in server.app.asked)
        new = [opened.enter_context(server.connect()) for _ in range(MANY)]
        for client in kept + new:
            client.sendall(get())
        server.stop()
        server.app.goes_on.set()
        answers = [rest(client) for client in [busy, *kept, *new]]
        assert [found[-6:] for found in answers] == [b"answer"] * (2 * MANY + 1)


@on_both_loops
def test_next_request_of_a_kept_connection_is_answered_during_shutdown(
    loop: str,
) -> None:
    with running(loop, limited(shutdown_idle_s=WAIT_S)) as server, server.connect() as client:
        client.sendall(get())
        answer(client)
        server.stop()
        assert becomes(lambda: server.has_begun_to_stop)
        client.sendall(get())
        assert b"connection: close" in rest(client)


@on_both_loops
def test_idle_connection_does_not_delay_shutdown(loop: str) -> None:
    with (
        running(loop, limited(shutdown_idle_s=0.1)) as server,
        server.connect() as silent,
        server.connect() as half,
        server.connect() as used,
    ):
        half.sendall(b"GET / HT")
        used.sendall(get())
        answer(used)
        server.stop()
        assert [rest(client) for client in (silent, half, used)] == [b""] * 3
        server.thread.join(WAIT_S)  # such a connection may else stay for ten minutes
        assert not server.thread.is_alive()


@on_both_loops
def test_request_in_flight_at_shutdown_closes_its_connection(loop: str) -> None:
    with running(loop) as server, server.connect() as client:
        client.sendall(get("/slow"))
        assert becomes(lambda: server.app.asked == ["/slow"])
        server.stop()
        assert becomes(lambda: server.has_begun_to_stop)
        server.app.goes_on.set()
        found = rest(client)
    assert b"connection: close" in found and found.endswith(b"answer")


def test_during_shutdown_the_service_is_not_ready_but_serves_for_a_while(
    bundle_folder: Path,
) -> None:
    settings = Settings(bundles=(bundle_folder,), device="cpu", precision="float32", workers=1)
    app = create_app(settings, load_catalogue(settings), InProcessWorker)
    server = Server(uvicorn.Config(app, **server_options(settings)), drain_s=WAIT_S)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        with httpx.Client(base_url=url, timeout=WAIT_S) as client:
            while client.get("/ready").status_code != 200:
                time.sleep(0.05)
            server.should_exit = True
            while (ready := client.get("/ready")).status_code == 200:
                time.sleep(0.02)
            done = client.post("/translate", json={"text": "Hello.", "source": "en", "target": "fr"})
            server.drain_s = 0.0  # the rest of the while is over at once
            thread.join()
        assert listener.fileno() == -1
    assert ready.status_code == 503 and "shutting down" in ready.text
    assert done.status_code == 200 and done.headers["connection"] == "close"


def test_no_complete_request_is_lost_at_shutdown_under_load(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLINEAR_PRECISION", "int8")  # whose workers do not import PyTorch
    outcomes = stops(bundle_folder, ["kept", "new"], runs=1)
    assert outcomes["lost"] == 0 and outcomes["answered"] > 0, outcomes


LIMITED = """
import logging, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
sys.path.insert(0, "tests/support")
import uvicorn
from app.server.connection import Connection
from servers import QuickServer, Small
logging.basicConfig(level=logging.WARNING, format="%(message)s")
config = uvicorn.Config(Small(), loop=sys.argv[1], http=Connection, lifespan="off", log_config=None, ws="none",
                        timeout_keep_alive=600)
QuickServer(config).run([socket.socket(fileno=int(sys.argv[2]))])
"""


@on_both_loops
def test_without_file_descriptors_clients_wait_and_none_is_disconnected(loop: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as opened:
        number = listener.fileno()
        command = [sys.executable, "-c", LIMITED, loop, str(number)]
        process = opened.enter_context(
            subprocess.Popen(command, cwd=ROOT, pass_fds=[number], stderr=subprocess.PIPE, text=True)
        )
        opened.callback(process.terminate)
        began = time.monotonic()
        clients = [opened.enter_context(socket.create_connection(listener.getsockname(), WAIT_S)) for _ in range(100)]
        for client in clients:
            client.sendall(get())
        assert answer(clients[0]).endswith(b"answer")
        time.sleep(0.2)
        clients[0].sendall(get())
        assert answer(clients[0]).endswith(b"answer")
        answered = 1
        for client in clients:  # who has its answer goes, and the next is let in
            if client is not clients[0]:
                answered += answer(client).endswith(b"answer")
            client.close()
        with socket.create_connection(listener.getsockname(), WAIT_S) as client:
            client.sendall(get())
            assert answer(client).endswith(b"answer")
        process.terminate()
        assert process.stderr is not None
        said, lasted_s = process.stderr.read(), time.monotonic() - began
    assert answered == 100
    assert 1 <= said.count("new connections have to wait") <= 1 + lasted_s / LOG_INTERVAL_S
    assert "Traceback" not in said
