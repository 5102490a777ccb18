"""A connection and its end: answers arrive though a request was not read, a client that listens is told from one that
left, and a service that stops answers what has come.

Knows connections and requests as uvicorn does, and no route. How long a head may be is `app.server.header_limits`'.
"""

from __future__ import annotations

import asyncio
import functools
import select
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.runtime.shutdown import Stop
from app.server.header_limits import MOST_BYTES
from app.server.lingering_close import LingeringTransport
from app.server.queued_protocol import IntakeProtocol

IDLE_S = 1.0
"""A service that stops waits so long for the next request of a connection: its client cannot know of the stop yet."""
SHORT_BYTES = 1 << 16
"""A connection is kept, and what is left of a body that was not read is waited for, if the body is no longer."""
MOST_DROPPED = 32 << 20
"""Of a body that was not read; twice the largest file."""
LISTENS_S, LOOK_S = 0.5, 0.25
"""A client that ended its side is believed to listen for so long, then asked; what came of it is seen so often."""
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
_TCP_CLOSE = 7
"""The state of a connection that was reset (Linux, include/net/tcp_states.h)."""


class Connection(IntakeProtocol):
    """uvicorn's protocol. With `Stop` begun in the lifespan's state, it ends with its next answer."""

    transport: LingeringTransport

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stop: Stop = self.app_state["stop"]
        self._is_whole = True
        """Whether the last request has come whole."""
        self._is_malformed = False
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(LingeringTransport(transport, self._unread))
        if self._stop.begun:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport.lost()
        if self._look:
            self._look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_lingering:
            self.transport.drop(len(data))
        else:
            super().data_received(data)

    def on_headers_complete(self) -> None:
        self._is_whole = False
        super().on_headers_complete()
        cycle = self.cycle
        cycle.send = functools.partial(self._send, cycle, cycle.send)  # type: ignore[method-assign]

    def on_message_complete(self) -> None:
        self._is_whole = True
        super().on_message_complete()

    # Not a coroutine, but what returns one: another around it, at each message of each request, takes its time.
    def _send(
        self, cycle: RequestResponseCycle, send: Callable[[Any], Coroutine[Any, Any, None]], message: Any
    ) -> Coroutine[Any, Any, None]:
        """As `send`, but the head of an answer says whether the connection ends with it."""
        if not cycle.response_started and cycle is self.cycle and (self._stop.begun or not self._may_go_on(cycle)):
            cycle.keep_alive = False
        return send(message)

    def on_response_complete(self) -> None:
        # A cycle that holds what holds it is garbage that only the collector finds, and with it all of the request.
        vars(self._unanswered[0][0]).pop("send")
        super().on_response_complete()

    def _may_go_on(self, cycle: RequestResponseCycle) -> bool:
        """Whether what is left of the request, if anything, is little and certain to come."""
        if self._is_whole:
            return True
        if cycle.waiting_for_100_continue:  # whether it still comes is the client's choice
            return False
        length = next((value for name, value in cycle.scope["headers"] if name == b"content-length"), b"")
        return length.isdigit() and int(length) <= SHORT_BYTES

    # ---- Clients that have ended their side

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the client may still listen: to have ended its side and to have left look the same."""
        if self.transport.is_closing() or not (self._is_answering and self._is_whole):
            return False
        self.cycle.keep_alive = False
        self._look = self.loop.call_later(LISTENS_S, self._ask)
        return True

    def _ask(self) -> None:
        """Sends what a client that listens passes over, and what the machine of one that left answers with a reset."""
        if not self.cycle.response_started and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(_INTERIM)
        self._look = self.loop.call_later(LOOK_S, self._see)

    def _see(self) -> None:
        if _is_reset(self.transport):
            self.transport.abort()
        else:
            self._look = self.loop.call_later(LOOK_S, self._see)

    # ---- The end

    def shutdown(self) -> None:
        """The service stops: this ends with its next answer, or if no request comes for a while."""
        self.timeout_keep_alive = IDLE_S  # type: ignore[assignment]  # uvicorn's are whole seconds
        self._unset_keepalive_if_required()
        self._unset_timer()
        self._set_timer()

    def send_400_response(self, msg: str) -> None:
        self._is_malformed = True
        super().send_400_response(msg)

    def _unread(self) -> int:
        """Bytes that may still come of what has been answered; 0 if nothing should come."""
        if self._is_malformed:
            return MOST_BYTES
        return 0 if self._is_whole or self._is_answering else MOST_DROPPED

    def _end(self) -> None:
        if not _has_come(self.transport):
            super()._end()

    def timeout_keep_alive_handler(self) -> None:
        if not _has_come(self.transport):
            super().timeout_keep_alive_handler()


def _has_come(transport: asyncio.BaseTransport) -> bool:
    """Whether there is something to read, a request or an end, which the event loop has not come to yet."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))


def _is_reset(transport: asyncio.BaseTransport) -> bool:
    found: bytes = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    return found[0] == _TCP_CLOSE
