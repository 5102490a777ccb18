"""The application inside a server of uvicorn's that somebody else starts, as Ray Serve does in each replica.

The host runs the lifespan and binds the port; connections are ours, with the limits, the request queue and the draining
of `python -m app serve`. The host's own middleware would cost a fifth of the time, answer with a second request id and
believe forged X-Forwarded-For headers.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import uvicorn.config
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from app.api.readiness import check_ready
from app.api.state import State
from app.errors import Unavailable
from app.http.access_log import ID_HEADER
from app.server.connection import Connection
from app.server.paths import route_path
from app.server.state import APPLICATION

HOST_PREFIX = "/-/"
"""Where the host has its own paths."""
HEALTH_PATH = "/-/healthz"
"""The path that the host's balancer asks before it sends requests."""
log = logging.getLogger(__name__)


class Hosted:
    """The application. Its lifespan has started only once a worker is ready."""

    def __init__(self, app: ASGIApp, server_options: dict[str, Any]) -> None:
        """`server_options`: the arguments for uvicorn that `python -m app serve` gives."""
        self.app = app
        self.states: dict[str, Any] = {}
        """Those of the lifespan; empty before it starts."""
        self.config = uvicorn.Config(self, **server_options, lifespan="off")
        self.config.load()

    @property
    def state(self) -> State:
        """The application's; there is none before the lifespan starts."""
        found: State = self.states[APPLICATION]
        return found

    def check_ready(self) -> None:
        """Raises Unavailable with the reason."""
        check_ready(self.state.deployments.current.engine, self.state.shutdown)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
        elif APPLICATION in scope.get("state", ()):
            await self.app(scope, receive, send)
        else:
            await self._answer_host(scope, receive, send)

    async def _answer_host(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request that came through the host's own server, which gives it no state and adds an id of its own:
        Ray Serve's proxy, for as long as HAProxy finds no replica ready."""

        async def send_one_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", ())
                message["headers"] = [header for header in headers if header[0] != ID_HEADER.lower().encode()]
            await send(message)

        await self.app({**scope, "state": dict(self.states)}, receive, send_one_id)

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_when_ready(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                self.states = scope["state"]
                await self.state.deployments.current.engine.wait_started()
                self.check_ready()  # if it raises, the lifespan ends, and with it the workers
            await send(message)

        try:
            await self.app(scope, receive, send_when_ready)
        except Unavailable as reason:
            log.critical("the service could not start: %s", reason)
            raise

    def take_connections(self) -> None:
        """Makes this application's connections those of every server that this process starts from now on with
        uvicorn's default protocol."""
        made = type("HostedConnection", (HostedConnection,), {"hosted": self})
        uvicorn.config.HTTP_PROTOCOLS["auto"] = made  # type: ignore[assignment]  # which it also accepts


class HostedConnection(Connection):
    """A connection of the host's server. Requests go to our application, and those below HOST_PREFIX to the host's."""

    hosted: Hosted

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], **more: Any
    ) -> None:
        super().__init__(self.hosted.config, server_state, self.hosted.states, **more)
        self.access_log = False  # uvicorn's has addresses of clients
        self._host_app = cast(ASGIApp, config.loaded_app)
        if config.encoded_headers:  # which name the server
            config.encoded_headers = []
            server_state.default_headers = [header for header in server_state.default_headers if header[0] == b"date"]

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        path = route_path(cast(Scope, cycle.scope))
        if not path.startswith(HOST_PREFIX):
            super()._start_asgi_task(cycle, app)
        elif path == HEALTH_PATH and (reason := self._unready()):
            self.start_at_once(cycle, PlainTextResponse(reason, 503))
        else:
            self.start_at_once(cycle, self._host_app)

    def _unready(self) -> str | None:
        """Why the balancer should send no requests: the host itself asks less often."""
        try:
            self.hosted.check_ready()
        except Unavailable as reason:
            return str(reason)
        return None

    def shutdown(self) -> None:
        self._shutdown.begun = True  # so that each connection ends with its next response
        super().shutdown()
