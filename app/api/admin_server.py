"""Serves /health, /ready and /metrics on a separate port, in a thread whose event loop does not wait for the service's.

Only reads the lifespan's objects, and never changes them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.server import ServerState

from app.api.schemas.health import Ready
from app.errors import NotAuthorised, ServiceError, Unavailable
from app.http.auth import AccessControl, bearer
from app.http.problems import error_response, validated
from app.runtime.event_loop_lag import LoopLag
from app.runtime.metrics import CONTENT_TYPE
from app.server.header_limits import HeaderLimitsProtocol
from app.settings import PREFIX, SettingsError

READ_TIMEOUT_S = 5
"""How long a client may be silent."""
MAX_CONNECTIONS = 64
"""Any more are answered with 503."""
MAX_BLOCKED_S = 10.0
"""/health fails once the service's event loop has been blocked for this long."""


class ReadyQuery(BaseModel):
    """The query of /ready."""

    strict: bool = False


def listen_admin(host: str, port: int) -> socket.socket:
    """The socket of the admin port. Raises SettingsError."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=64)
    except OSError as error:
        raise SettingsError(f"{PREFIX}ADMIN_PORT={port}: cannot listen on {host}: {error.strerror}") from None
    listener.setblocking(False)  # of two processes that share it during a restart, only one gets a connection
    return listener


class AdminServer:
    """Listens from construction, and answers between `start` and `stop`.

    `readiness` answers /ready, strictly or not, or raises Unavailable.
    """

    def __init__(
        self,
        listener: socket.socket,
        lag: LoopLag,
        exposition: Callable[[], bytes],
        access_control: AccessControl,
        readiness: Callable[[bool], Ready],
    ) -> None:
        self.max_blocked_s = MAX_BLOCKED_S
        self.port: int = listener.getsockname()[1]
        self._listener, self._lag, self._exposition = listener, lag, exposition
        self._access_control, self._readiness = access_control, readiness
        self._loop: asyncio.AbstractEventLoop
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="admin", daemon=True)
        routes = [Route(f"/{handle.__name__}", handle) for handle in (self.health, self.ready, self.metrics)]
        app = Starlette(routes=routes, exception_handlers={ServiceError: _refusal, 404: _not_found})
        self.config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_keep_alive=READ_TIMEOUT_S,
            limit_concurrency=MAX_CONNECTIONS,
        )

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._loop.close()
        self._listener.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        state = ServerState()
        state.default_headers = [(b"cache-control", b"no-store")]
        server = await self._loop.create_server(
            lambda: HeaderLimitsProtocol(self.config, state, app_state={}), sock=self._listener
        )
        await self._stopping.wait()
        server.close()
        for connection in list(state.connections):
            connection.shutdown()

    async def health(self, request: Request) -> Response:
        if (blocked_s := self._lag.current_s) > self.max_blocked_s:
            raise Unavailable(f"The event loop has been blocked for {blocked_s:.0f} s.")
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        strict = validated(ReadyQuery, dict(request.query_params)).strict
        return JSONResponse(self._readiness(strict).model_dump(mode="json"))

    def metrics(self, request: Request) -> Response:
        """Not a coroutine, since the other instances may take seconds to answer."""
        if not self._access_control.is_valid(bearer(request)):
            raise NotAuthorised(NotAuthorised.example)
        return Response(self._exposition(), media_type=CONTENT_TYPE)


def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return error_response(error)


def _not_found(request: Request, error: Exception) -> Response:
    return PlainTextResponse("Not found. This port serves /health, /ready and /metrics.\n", 404)
