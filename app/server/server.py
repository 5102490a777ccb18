"""uvicorn's server with our own listener, so that no request is lost at shutdown."""

from __future__ import annotations

import asyncio
import socket

import uvicorn

from app.runtime.watchdog import Watchdog
from app.server.listener import Listener
from app.server.state import app_state

CHECK_INTERVAL_S = 0.1
"""How often to check, while draining, whether to stop at once."""


class Server(uvicorn.Server):
    """`run` takes bound sockets, which `sharers` processes share. On shutdown it keeps serving for `drain_s`, while
    reporting that it is not ready."""

    def __init__(self, config: uvicorn.Config, drain_s: float = 0.0, sharers: int = 1) -> None:
        super().__init__(config)
        self.drain_s, self.sharers = drain_s, sharers
        self.watchdog: Watchdog | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        if self.watchdog:
            self.watchdog.watch()
        await super().startup(sockets=[])
        self.listen(sockets)

    def listen(self, sockets: list[socket.socket]) -> None:
        """Begins to accept connections."""
        listener = Listener(sockets, self._new_protocol, self.server_state.connections, self.sharers)
        self.servers = [listener]  # type: ignore[list-item]
        self._log_started_message(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app_state(self.lifespan.state).shutdown.begun = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self.force_exit and loop.time() - began < self.drain_s:  # noqa: ASYNC110  # a second Ctrl-C forces the exit
            await asyncio.sleep(CHECK_INTERVAL_S)
        await super().shutdown()

    def _new_protocol(self) -> asyncio.Protocol:
        state = self.lifespan.state
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=state
        )
        return protocol
