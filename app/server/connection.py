"""How a connection ends: delivers responses to unread requests, detects clients that have left, and on shutdown answers
requests that have already arrived.
"""

from __future__ import annotations

import asyncio
import functools
import select
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.runtime.shutdown import Shutdown
from app.server.header_limits import MAX_HEAD_BYTES
from app.server.lingering_close import MAX_IDLE_S, MAX_LINGER_S, LingeringTransport
from app.server.queued_protocol import QueuedProtocol

MAX_AWAITED_BYTES = 1 << 16
"""The server waits for an unread body of at most this length, and then keeps the connection."""
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
_TCP_CLOSE = 7
"""TCP_CLOSE: the state of a reset connection (Linux, include/net/tcp_states.h)."""


@dataclass(frozen=True)
class ConnectionLimits:
    """How long a connection that is to end waits for its client, and how much it drops meanwhile."""

    shutdown_idle_s: float = 1.0
    """On shutdown, how long to wait for a connection's next request: its client does not know of the shutdown yet."""
    max_dropped_bytes: int = 32 << 20
    """Maximum number of bytes of an unread body to drop; twice the largest file."""
    half_closed_s: float = 0.5
    """How long a client that closed its sending side is assumed to listen before it is probed."""
    probe_interval_s: float = 0.25
    """How often the result of the probe is checked."""
    max_idle_s: float = MAX_IDLE_S
    max_linger_s: float = MAX_LINGER_S


class Connection(QueuedProtocol):
    """uvicorn's protocol. Once `Shutdown` in the lifespan's state has begun, it ends with its next response."""

    limits = ConnectionLimits()
    transport: LingeringTransport

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shutdown: Shutdown = self.app_state["shutdown"]
        self._is_complete = True
        """Whether the last request has arrived completely."""
        self._is_malformed = False
        self._probe_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        limits = self.limits
        lingering = LingeringTransport(transport, self._unread, limits.max_idle_s, limits.max_linger_s)
        super().connection_made(lingering)
        if self._shutdown.begun:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport.on_lost()
        if self._probe_timer:
            self._probe_timer.cancel()
        self._unset_keepalive_if_required()  # uvicorn leaves it running if the client has reset the connection
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_lingering:
            self.transport.drop(len(data))
        else:
            super().data_received(data)

    def on_headers_complete(self) -> None:
        self._is_complete = False
        super().on_headers_complete()
        cycle = self.cycle
        cycle.send = functools.partial(self._send, cycle, cycle.send)  # type: ignore[method-assign]

    def on_message_complete(self) -> None:
        self._is_complete = True
        super().on_message_complete()

    # Returns a coroutine rather than being one: another coroutine around each message of each request costs time.
    def _send(
        self, cycle: RequestResponseCycle, send: Callable[[Any], Coroutine[Any, Any, None]], message: Any
    ) -> Coroutine[Any, Any, None]:
        """Calls `send`. The response's head says whether the connection closes after it."""
        if not cycle.response_started:
            self.transport.cork()
            if cycle is self.cycle and (self._shutdown.begun or not self._can_keep_alive(cycle)):
                cycle.keep_alive = False
        return send(message)

    def on_response_complete(self) -> None:
        # Break the reference cycle: otherwise the whole request stays in memory until the garbage collector runs.
        vars(self._unanswered[0][0]).pop("send")
        self.transport.flush()
        super().on_response_complete()

    def _can_keep_alive(self, cycle: RequestResponseCycle) -> bool:
        """Whether the request has arrived completely, or its rest is short and certain to arrive."""
        if self._is_complete:
            return True
        if cycle.waiting_for_100_continue:  # the client may or may not send the body
            return False
        length = next((value for name, value in cycle.scope["headers"] if name == b"content-length"), b"")
        return length.isdigit() and int(length) <= MAX_AWAITED_BYTES

    # ---- Clients that have closed their sending side

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the client may still listen: half-closing and leaving look the same."""
        if self.transport.is_closing() or not (self._is_answering and self._is_complete):
            return False
        self.cycle.keep_alive = False
        self._probe_timer = self.loop.call_later(self.limits.half_closed_s, self._probe)
        return True

    def _probe(self) -> None:
        """Sends bytes that a listening client ignores, and that the machine of a departed client answers with a
        reset."""
        if not self.cycle.response_started and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(_INTERIM)
        self._probe_timer = self.loop.call_later(self.limits.probe_interval_s, self._check_probe)

    def _check_probe(self) -> None:
        if self._is_reset():
            self.transport.abort()
        else:
            self._probe_timer = self.loop.call_later(self.limits.probe_interval_s, self._check_probe)

    def _is_reset(self) -> bool:
        found: bytes = self.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return found[0] == _TCP_CLOSE

    # ---- Shutdown

    def shutdown(self) -> None:
        """Starts the shutdown: the connection ends with its next response, or when no request arrives for a while."""
        self.timeout_keep_alive = self.limits.shutdown_idle_s  # type: ignore[assignment]  # uvicorn's are whole seconds
        self._unset_keepalive_if_required()
        self._unset_timer()
        self._set_timer()

    def send_400_response(self, msg: str) -> None:
        self._is_malformed = True
        super().send_400_response(msg)

    def _unread(self) -> int:
        """Maximum number of bytes that may still arrive for answered requests; 0 if none are expected."""
        if self._is_malformed:
            return MAX_HEAD_BYTES
        return 0 if self._is_complete or self._is_answering else self.limits.max_dropped_bytes

    def _on_timeout(self) -> None:
        if not _has_input(self.transport):
            super()._on_timeout()

    def timeout_keep_alive_handler(self) -> None:
        if not _has_input(self.transport):
            super().timeout_keep_alive_handler()


def _has_input(transport: asyncio.BaseTransport) -> bool:
    """Whether data or an end of stream has arrived that the event loop has not read yet."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))
