"""uvicorn's HTTP protocol with queued request starts, accounting of unread bodies, and a check that clients read
responses.

Uses `request_queue` and `slow_readers` of the lifespan's state. Limits on heads are in `app.server.header_limits`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from time import perf_counter
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.runtime.byte_budgets import ByteBudget
from app.runtime.event_loop_lag import LoopLag
from app.server.disconnect import Disconnect
from app.server.header_limits import HeaderLimitsProtocol
from app.server.paths import route_path
from app.server.request_queue import RequestQueue, UnreadBody
from app.server.slow_readers import SlowReaders
from app.server.tcp_info import seconds_since_data

PROBES = {"/health", "/ready", "/metrics"}
"""Paths that skip the queue."""
DEFAULT_BUDGET_BYTES = 1 << 20


class QueuedProtocol(HeaderLimitsProtocol):
    """Adds to each request's state when it `arrived` (perf_counter), its predicted `delay_s`, and the `disconnect` of
    its client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Without a lifespan, each connection has its own.
        self._request_queue: RequestQueue = self.app_state.get("request_queue") or RequestQueue(
            LoopLag(), ByteBudget(DEFAULT_BUDGET_BYTES)
        )
        self._slow_readers: SlowReaders | None = self.app_state.get("slow_readers")
        self._unanswered: deque[tuple[RequestResponseCycle, UnreadBody]] = deque()
        """Requests without a complete response, in order; the last may still be arriving."""
        self._is_new = True
        """Whether no request has arrived yet; the connection may have waited to be accepted."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._disconnect = Disconnect(self.flow.resume_reading)
        if self._slow_readers:
            self._slow_readers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._slow_readers:
            self._slow_readers.remove(self)
        for _, unread in self._unanswered:
            unread.release()
        super().connection_lost(exc)
        self._disconnect.set()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        arrived = perf_counter()
        if self._is_new or self._request_queue.is_late:  # otherwise save the system call, 3 µs
            arrived -= seconds_since_data(self.transport.get_extra_info("socket"))
            self._is_new = False
        self.scope["state"]["arrived"] = arrived
        self.scope["state"]["disconnect"] = self._disconnect

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        unread = self.scope["state"]["unread"] = UnreadBody(self._request_queue.unread)
        self._unanswered.append((self.cycle, unread))

    def on_body(self, body: bytes) -> None:
        is_kept = self.cycle.response_complete or self._unanswered[-1][1].try_reserve(len(body))
        super().on_body(body if is_kept else b"")  # a reader of the body must notice that it is incomplete

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._unanswered[-1][1].is_complete = True

    def on_response_complete(self) -> None:
        cycle, unread = self._unanswered.popleft()
        cycle.body.clear()  # unread data: the connection may stay open for a minute
        unread.release()
        super().on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope = cast(Scope, cycle.scope)
        if route_path(scope) in PROBES:
            super()._start_asgi_task(cycle, app)
            return
        if delay_s := self._request_queue.delay_s:
            scope["state"]["delay_s"] = delay_s
        if self._request_queue.try_start():
            super()._start_asgi_task(cycle, app)
        else:
            self._request_queue.wait(partial(super()._start_asgi_task, cycle, app))
