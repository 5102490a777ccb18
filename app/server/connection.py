"""A connection: uvicorn's HTTP protocol with queued request starts, accounting of unread bodies, and an end that loses
no response.

It delivers responses to unread requests, detects clients that have left, and on shutdown answers requests that have
already arrived. Limits on heads are in `app.server.header_limits`.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.server.disconnect import Disconnect
from app.server.header_limits import MAX_HEAD_BYTES, HeaderLimitsProtocol
from app.server.lingering_close import MAX_IDLE_S, MAX_LINGER_S, LingeringTransport
from app.server.paths import route_path
from app.server.request_queue import UnreadBody
from app.server.state import app_state, state_of
from app.server.tcp_info import seconds_since_data

PROBES = {"/health", "/ready", "/metrics"}
"""Paths that skip the queue."""
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


class Connection(HeaderLimitsProtocol):
    """uvicorn's protocol. Once the application's `shutdown` has begun, the connection ends with its next response.

    Begins each request's state with what only the connection knows.
    """

    limits = ConnectionLimits()
    transport: LingeringTransport

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._app = app_state(self.app_state)
        self._shutdown, self._request_queue = self._app.shutdown, self._app.request_queue
        self._slow_readers = self._app.slow_readers
        self._unanswered: deque[tuple[RequestResponseCycle, UnreadBody]] = deque()
        """Requests without a complete response, in order; the last may still be arriving."""
        self._last_body = UnreadBody(self._request_queue.unread)
        """That of the last request."""
        self._last_body.is_complete = True
        self._is_new = True
        """Whether no request has arrived yet; the connection may have waited to be accepted."""
        self._is_malformed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        limits = self.limits
        lingering = LingeringTransport(transport, self._expected_bytes, limits.max_idle_s, limits.max_linger_s)
        super().connection_made(lingering)
        self._disconnect = Disconnect(self.flow.resume_reading)
        self._slow_readers.add(self)
        if self._shutdown.begun:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._slow_readers.remove(self)
        for _, unread in self._unanswered:
            unread.release()
        super().connection_lost(exc)
        self._disconnect.set()

    def shutdown(self) -> None:
        """Starts the shutdown: the connection ends with its next response, or when no request arrives for a while."""
        self.timeout_keep_alive = self.limits.shutdown_idle_s  # type: ignore[assignment]  # uvicorn's are whole seconds
        self._unset_timer()
        self._set_timer()

    # ---- A request arrives

    def data_received(self, data: bytes) -> None:
        if self.transport.is_lingering:
            self.transport.drop(len(data))
        else:
            super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        arrived = perf_counter()
        if self._is_new or self._request_queue.is_late:  # otherwise save the system call, 3 µs
            arrived -= seconds_since_data(self.transport.get_extra_info("socket"))
            self._is_new = False
        state = state_of(self.scope)
        state.arrived, state.disconnect = arrived, self._disconnect

    def on_headers_complete(self) -> None:
        self._last_body = UnreadBody(self._request_queue.unread)
        super().on_headers_complete()
        state_of(self.scope).unread = self._last_body
        self._unanswered.append((self.cycle, self._last_body))

    def on_body(self, body: bytes) -> None:
        is_kept = self.cycle.response_complete or self._last_body.try_reserve(len(body))
        super().on_body(body if is_kept else b"")  # a reader of the body must notice that it is incomplete

    def on_message_complete(self) -> None:
        self._last_body.is_complete = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._is_malformed = True
        super().send_400_response(msg)

    # ---- A request is answered

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope = cast(Scope, cycle.scope)
        if route_path(scope) in PROBES:
            self.start_at_once(cycle, app)
            return
        state_of(scope).delay_s = self._request_queue.delay_s
        if self._request_queue.try_start():
            self.start_at_once(cycle, app)
        else:
            self._request_queue.wait(partial(self.start_at_once, cycle, app))

    def start_at_once(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:
        """Lets `app` answer a request, without the queue."""

        # Neither this nor `_send` is a coroutine: one more around each request and each message costs time.
        def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            return app(scope, receive, partial(self._send, cycle, send))

        super()._start_asgi_task(cycle, answer)  # type: ignore[arg-type]

    def _send(self, cycle: RequestResponseCycle, send: Send, message: Message) -> Awaitable[None]:
        """Calls `send`. The response's head says whether the connection closes after it."""
        if not cycle.response_started:
            self.transport.cork()
            if cycle is self.cycle and (self._shutdown.begun or not self._can_keep_alive(cycle)):
                cycle.keep_alive = False
        return send(message)

    def on_response_complete(self) -> None:
        cycle, unread = self._unanswered.popleft()
        cycle.body.clear()  # unread data: the connection may stay open for a minute
        unread.release()
        self.transport.flush()
        super().on_response_complete()

    def _can_keep_alive(self, cycle: RequestResponseCycle) -> bool:
        """Whether the request has arrived completely, or its rest is short and certain to arrive."""
        if self._last_body.is_complete:
            return True
        if cycle.waiting_for_100_continue:  # the client may or may not send the body
            return False
        length = next((value for name, value in cycle.scope["headers"] if name == b"content-length"), b"")
        return length.isdigit() and int(length) <= MAX_AWAITED_BYTES

    def _expected_bytes(self) -> int:
        """Maximum number of bytes that may still arrive for answered requests; 0 if none are expected."""
        if self._is_malformed:
            return MAX_HEAD_BYTES
        return 0 if self._last_body.is_complete or self._is_answering else self.limits.max_dropped_bytes

    # ---- The client has closed its sending side

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the client may still listen: half-closing and leaving look the same."""
        if self.transport.is_closing() or not (self._is_answering and self._last_body.is_complete):
            return False
        self.cycle.keep_alive = False
        self.loop.call_later(self.limits.half_closed_s, self._probe)
        return True

    def _probe(self) -> None:
        """Sends bytes that a listening client ignores, and that the machine of a departed client answers with a
        reset."""
        if self.transport.is_closing():
            return
        if not self.cycle.response_started and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(_INTERIM)
        self._check_probe()

    def _check_probe(self) -> None:
        if self.transport.is_closing():
            return
        if self._is_reset():
            self.transport.abort()
        else:
            self.loop.call_later(self.limits.probe_interval_s, self._check_probe)

    def _is_reset(self) -> bool:
        found: bytes = self.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        return found[0] == _TCP_CLOSE
