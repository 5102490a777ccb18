"""Closes connections whose clients read nothing of their responses, and accounts for the unread bytes.

A client that reads slowly is served slowly, however long that takes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from app.runtime.byte_budgets import ByteBudget, Reservation
from app.server.tcp_info import bytes_acked

CHECKS_PER_LIMIT = 8
"""How often to check within the time limit."""
log = logging.getLogger(__name__)


class WatchedConnection(Protocol):
    """The protocol of a connection."""

    @property
    def transport(self) -> asyncio.Transport: ...


class SlowReaders:
    """Aborts connections whose clients have read nothing for `limit_s`.

    Bytes waiting in the connections' buffers count against `budget`. `acked` returns how many bytes the other end of a
    socket has received, or None if that is unknown.
    """

    def __init__(
        self,
        limit_s: float,
        budget: ByteBudget,
        acked: Callable[[socket.socket], int | None] = bytes_acked,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.limit_s, self._acked, self._clock = limit_s, acked, clock
        self._buffered = Reservation(budget)
        self._connections: dict[WatchedConnection, tuple[int, float]] = {}
        """For each connection, the number of bytes that its client has read, and when that last grew."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts on the running event loop."""
        self._timer = asyncio.get_running_loop().call_later(self.limit_s / CHECKS_PER_LIMIT, self._check)

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()

    def add(self, connection: WatchedConnection) -> None:
        self._connections[connection] = _NEVER

    def remove(self, connection: WatchedConnection) -> None:
        self._connections.pop(connection, None)

    def _check(self) -> None:
        now = self._clock()
        buffered = 0
        for connection, (taken, since) in list(self._connections.items()):
            size = connection.transport.get_write_buffer_size()
            if not size:
                if taken != _NEVER[0]:
                    self._connections[connection] = _NEVER
                continue
            buffered += size
            acked = self._acked(connection.transport.get_extra_info("socket"))
            progress = size if acked is None else acked
            if progress != taken:
                self._connections[connection] = progress, now
            elif now - since >= self.limit_s:
                log.warning("a client read nothing of its response for %.0f s; closed its connection", now - since)
                connection.transport.abort()
        self._buffered.resize(buffered)
        self.start()


_NEVER = (-1, 0.0)
