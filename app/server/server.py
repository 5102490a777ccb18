"""uvicorn's server with our own listener, so that no request is lost at shutdown.

Uses only `shutdown` from the state of the lifespan.
"""

from __future__ import annotations

import asyncio
import math
import socket

import uvicorn

from app.runtime.shutdown import Shutdown
from app.server.listener import Listener

TICK_S = 0.1


class Server(uvicorn.Server):
    """`run` takes bound sockets. On shutdown it keeps serving for `drain_s`, while reporting that it is not ready."""

    def __init__(self, config: uvicorn.Config, drain_s: float = 0.0) -> None:
        super().__init__(config)
        self._drain_s = drain_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets
        await super().startup(sockets=[])
        self.lifespan.state.setdefault("shutdown", Shutdown())
        self.servers = [Listener(sockets, self._new_protocol, self.server_state.connections)]  # type: ignore[list-item]
        self._log_started_message(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state["shutdown"].begun = True
        for _ in range(math.ceil(self._drain_s / TICK_S)):
            if not self.force_exit:  # requested by a second Ctrl-C
                await asyncio.sleep(TICK_S)
        await super().shutdown()

    def _new_protocol(self) -> asyncio.Protocol:
        state = self.lifespan.state
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=state
        )
        return protocol
