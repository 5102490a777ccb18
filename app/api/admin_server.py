"""Serves /health, /ready and /metrics on a separate port, from threads that do not wait for the event loop.

Only reads the lifespan's objects, and never changes them.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs

from pydantic import BaseModel

from app.api.readiness import check_ready
from app.engine.engine import Engine
from app.errors import NotAuthorised, ServiceError, Unavailable
from app.http.auth import AccessControl
from app.http.problems import PROBLEM_MEDIA_TYPE, problem_of, validated
from app.runtime.event_loop_lag import LoopLag
from app.runtime.metrics import CONTENT_TYPE
from app.runtime.shutdown import Shutdown
from app.settings import PREFIX, SettingsError
from app.translation.translator import Translator

MAX_CONNECTIONS = 8
"""Maximum number of open connections; more are closed unanswered."""
READ_TIMEOUT_S = 5.0
"""How long a client may be silent."""
MAX_BLOCKED_S = 10.0
"""/health fails once the event loop has been blocked for this long."""


class AdminResponse(NamedTuple):
    """A response: status, media type and body."""

    status: int
    media_type: str
    body: bytes


class ReadyQuery(BaseModel):
    """The query of /ready."""

    strict: bool = False


class AdminRoutes:
    """Responses for each path. `serving` returns the current engine and translator."""

    def __init__(
        self,
        lag: LoopLag,
        exposition: Callable[[], bytes],
        access_control: AccessControl,
        shutdown: Shutdown,
        serving: Callable[[], tuple[Engine, Translator]],
        max_blocked_s: float = MAX_BLOCKED_S,
    ) -> None:
        self.max_blocked_s = max_blocked_s
        self._lag, self._exposition, self._shutdown, self._serving = lag, exposition, shutdown, serving
        self._access_control = access_control

    def answer(self, path: str, key: str | None, query: str = "") -> AdminResponse | None:
        """Answers the request for `path`, or returns None if there is no such path. `key`: the Authorization header's
        value."""
        paths: dict[str, Callable[[], AdminResponse]] = {
            "/health": self._health,
            "/ready": partial(self._ready, query),
            "/metrics": partial(self._metrics, key),
        }
        if path not in paths:
            return None
        try:
            return paths[path]()
        except ServiceError as error:
            return AdminResponse(
                error.status, PROBLEM_MEDIA_TYPE, problem_of(error).model_dump_json(exclude_defaults=True).encode()
            )

    def _health(self) -> AdminResponse:
        blocked_s = self._lag.current_s
        if blocked_s > self.max_blocked_s:
            raise Unavailable(f"The event loop has been blocked for {blocked_s:.0f} s.")
        return _json_response({"status": "ok"})

    def _ready(self, query: str) -> AdminResponse:
        engine, translator = self._serving()
        given = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
        check_ready(engine, self._shutdown, validated(ReadyQuery, given).strict)
        return _json_response({"status": "ready", "models": [bundle.name for bundle in translator.catalogue]})

    def _metrics(self, key: str | None) -> AdminResponse:
        if not self._access_control.is_valid(key):
            raise NotAuthorised(NotAuthorised.example)
        return AdminResponse(200, CONTENT_TYPE, self._exposition())


def listen_admin(host: str, port: int) -> socket.socket:
    """The socket of the admin port. Raises SettingsError."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=64)
    except OSError as error:
        raise SettingsError(f"{PREFIX}ADMIN_PORT={port}: cannot listen on {host}: {error.strerror}") from None
    listener.setblocking(False)  # of two processes that share it during a restart, only one gets a connection
    return listener


class AdminServer(ThreadingHTTPServer):
    """Listens from construction, and answers between `start` and `stop`."""

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, listener: socket.socket, admin_routes: AdminRoutes, read_timeout_s: float = READ_TIMEOUT_S
    ) -> None:
        self.admin_routes, self.read_timeout_s = admin_routes, read_timeout_s
        self._open_connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._thread = threading.Thread(target=self.serve_forever, name="admin", daemon=True)
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_address = listener.getsockname()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        if self._open_connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open_connections.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that disconnect or time out."""


class _Handler(BaseHTTPRequestHandler):
    server: AdminServer

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.read_timeout_s)

    def do_GET(self) -> None:
        scheme, _, key = self.headers.get("Authorization", "").partition(" ")
        path, _, query = self.path.partition("?")
        answer = self.server.admin_routes.answer(path, key.strip() if scheme.lower() == "bearer" else None, query)
        answer = answer or AdminResponse(
            404, "text/plain", b"Not found. This port serves /health, /ready and /metrics.\n"
        )
        self.send_response_only(answer.status)
        if answer.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: probes would fill the log."""


def _json_response(content: dict[str, object]) -> AdminResponse:
    return AdminResponse(200, "application/json", json.dumps(content).encode())
