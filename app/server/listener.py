"""Listening sockets and their accept loop, which waits when file descriptors run out and accepts every waiting
connection at shutdown.

The event loops' own servers are unsuitable. uvloop's closes all waiting connections when descriptors run out, and
either loop's drops them when it is closed. uvloop's also accepts only one connection per turn of the event loop: in a
burst of 700, the last one waits for 700 turns.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from app.server.tcp_info import waiting_connections

BACKLOG = 2048
MAX_ACCEPTS = 512
"""Maximum number of connections to accept in a row, in about 20 ms, before open connections get their turn."""
RESERVED_DESCRIPTORS = 64
"""File descriptors reserved for files and workers."""
RETRY_INTERVAL_S = 0.1
LOG_INTERVAL_S = 5.0
_UNAVAILABLE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
_NONE_WAITING = {errno.EAGAIN, errno.EINTR, errno.ECONNABORTED}
log = logging.getLogger(__name__)


class CannotListen(Exception):
    """No socket can listen at an address; the message is one line with the reason and the remedy."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Returns a socket for each address of `host`; "" means any. Raises CannotListen."""
    where = f"port {port} of {host}" if host else f"port {port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotListen(f"cannot listen on {where}: {error.strerror}; set INTERLINEAR_HOST to an address") from None
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            sockets.append(_bind(family, kind, protocol, address))
        except OSError as error:
            if error.errno not in _UNAVAILABLE:
                for each in sockets:
                    each.close()
                raise CannotListen(f"cannot listen on {where}: {_reason(error)}") from None
            absent = error  # for "localhost", an address that machines without IPv6 lack
    if absent and not sockets:
        raise CannotListen(f"cannot listen on {where}: {_reason(absent)}")
    return sockets


def _bind(family: int, kind: int, protocol: int, address: object) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # 0.0.0.0 has its own socket
        made.bind(address)  # type: ignore[arg-type]
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _reason(error: OSError) -> str:
    reasons = {
        errno.EADDRINUSE: "it is already in use; stop what listens there, or set INTERLINEAR_PORT to another port",
        errno.EACCES: "permission denied; set INTERLINEAR_PORT to 1024 or more",
        errno.EADDRNOTAVAIL: "this machine does not have that address; set INTERLINEAR_HOST to one of its own",
    }
    return reasons.get(error.errno or 0, error.strerror or str(error))


class Listener:
    """Accepts connections for `make_protocol`. Looks like a server to uvicorn: it has `close` and `wait_closed`."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        make_protocol: Callable[[], asyncio.Protocol],
        connections: Collection[object],
        sharers: int = 1,
    ) -> None:
        """`connections`: the open ones; only their number matters. They may use all but RESERVED_DESCRIPTORS.

        `sharers`: the number of processes that accept connections from these sockets. Each leaves the others theirs.
        """
        self.sockets = list(sockets)
        self._make_protocol, self._connections, self._sharers = make_protocol, connections, sharers
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max_connections = max(1, limit - min(RESERVED_DESCRIPTORS, limit // 4) - len(os.listdir("/proc/self/fd")))
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[object]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._logged_at = -LOG_INTERVAL_S
        for each in self.sockets:
            each.setblocking(False)
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accepts all waiting connections, and then no more."""
        for each in self.sockets:
            if pause := self._pauses.pop(each, None):
                pause.cancel()
            else:
                self._loop.remove_reader(each)
        for each in self.sockets:
            with suppress(OSError):  # out of file descriptors
                while self._accept_one(each):
                    pass
            each.close()
        self.sockets = []

    async def wait_closed(self) -> None:
        """Returns once every accepted connection has a protocol."""
        await asyncio.gather(*self._starting, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        accepts = MAX_ACCEPTS if self._sharers == 1 else max(1, waiting_connections(listener) // self._sharers)
        for _ in range(min(accepts, MAX_ACCEPTS)):
            if len(self._connections) + len(self._starting) >= self._max_connections:
                return self._pause(listener, f"{len(self._connections)} are open")
            try:
                if not self._accept_one(listener):
                    return
            except OSError as error:
                return self._pause(listener, error.strerror or str(error))

    def _accept_one(self, listener: socket.socket) -> bool:
        """Accepts one connection, and returns whether one was waiting. Raises OSError if it cannot be accepted now."""
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in _NONE_WAITING:
                return False
            raise
        connection.setblocking(False)
        task = self._loop.create_task(self._start(connection))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return True

    async def _start(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:
            connection.close()  # the client has already left

    def _pause(self, listener: socket.socket, reason: str) -> None:
        """Stops accepting for a while: waiting connections are safe in the kernel's queue."""
        self._loop.remove_reader(listener)
        self._pauses[listener] = self._loop.call_later(RETRY_INTERVAL_S, self._resume, listener)
        if self._loop.time() - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = self._loop.time()
            log.warning("new connections have to wait: %s; raise `ulimit -n` to allow more", reason)

    def _resume(self, listener: socket.socket) -> None:
        del self._pauses[listener]
        self._loop.add_reader(listener, self._accept, listener)
