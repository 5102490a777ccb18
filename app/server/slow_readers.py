"""Ends connections whose clients take nothing of what is sent to them, and tells how much waits for them to.

Knows connections and bytes; nothing of requests. What a client takes slowly is sent slowly, however long that takes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from app.runtime.byte_budgets import Place, Room
from app.server.tcp_info import bytes_taken

LOOKS = 8
"""So often in the time limit."""
log = logging.getLogger(__name__)


class Connected(Protocol):
    """A connection's protocol."""

    transport: asyncio.Transport


class Sending:
    """Looks after connections that are added. One whose client has taken none of its bytes for `limit_s` is cut.

    What waits in the connections' buffers takes its part of `room`.
    """

    def __init__(self, limit_s: float, room: Room) -> None:
        self.limit_s = limit_s
        self._buffered = Place(room)
        self._connections: dict[Connected, tuple[int, float]] = {}
        """Each with how much its client had taken when that was last seen to grow, and when it was."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """On the event loop that runs."""
        self._timer = asyncio.get_running_loop().call_later(self.limit_s / LOOKS, self._look)

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def add(self, connection: Connected) -> None:
        self._connections[connection] = _NEVER

    def remove(self, connection: Connected) -> None:
        self._connections.pop(connection, None)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        buffered = 0
        for connection, (taken, since) in list(self._connections.items()):
            size = connection.transport.get_write_buffer_size()
            if not size:
                if taken != _NEVER[0]:
                    self._connections[connection] = _NEVER
                continue
            buffered += size
            known = bytes_taken(connection.transport.get_extra_info("socket"))
            progress = size if known is None else known
            if progress != taken:
                self._connections[connection] = progress, now
            elif now - since >= self.limit_s:
                log.warning("a client took nothing of its answer for %.0f s; its connection is cut", now - since)
                connection.transport.abort()
        self._buffered.set(buffered)
        self.start()


_NEVER = (-1, 0.0)
