"""A request cut off by the shutdown gets an error in its API's format."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
import uvicorn
from servers import WAIT_S, answer, post
from shared_fixtures import Gate

from app.engine.launch import InProcessWorker
from app.main import create_app, server_options
from app.server.server import Server
from app.services.startup import load_catalogue
from app.settings import Settings

pytestmark = pytest.mark.slow


def test_unfinished_requests_are_answered_503_at_shutdown(
    bundle_folder: Path, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(bundles=(bundle_folder,), device="cpu", precision="float32", workers=1)
    app = create_app(settings, load_catalogue(settings), InProcessWorker)
    server = Server(uvicorn.Config(app, **{**server_options(settings), "timeout_graceful_shutdown": 1}))
    body = json.dumps({"text": "Hello.", "source": "en", "target": "fr"}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        with socket.create_connection(listener.getsockname(), timeout=WAIT_S) as client:
            client.sendall(post("/translate", len(body), "Content-Type: application/json") + body)
            assert gate.entered.wait(WAIT_S)
            server.should_exit = True
            found = answer(client)
            gate.opened.set()  # or its worker would not end
        thread.join()
    assert found.startswith(b"HTTP/1.1 503 ") and b"connection: close" in found
    assert b"The service is shutting down" in found
    assert "Exception in ASGI application" not in caplog.text
