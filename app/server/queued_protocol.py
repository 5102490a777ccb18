"""uvicorn's HTTP protocol with queued request starts, accounting of unread bodies, and a check that clients read
responses.

Uses the intake and the sending of the lifespan's state. Limits on heads are in `app.server.header_limits`.
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
from app.server.header_limits import BoundedHeads
from app.server.paths import path_of
from app.server.request_queue import Intake, Unread
from app.server.slow_readers import Sending
from app.server.tcp_info import unread_s

PROBES = {"/health", "/ready", "/metrics"}
"""Paths that skip the queue."""
MOST_ALONE = 1 << 20


class IntakeProtocol(BoundedHeads):
    """Adds to each request's state when it `arrived` (perf_counter), its predicted `delay_s`, and the `disconnect` of
    its client."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Without a lifespan, each connection has its own.
        self._intake: Intake = self.app_state.get("intake") or Intake(LoopLag(), ByteBudget(MOST_ALONE))
        self._sending: Sending | None = self.app_state.get("sending")
        self._unanswered: deque[tuple[RequestResponseCycle, Unread]] = deque()
        """The last of these requests may still be arriving."""
        self._is_new = True
        """No request has arrived yet: the connection may have waited to be accepted."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._disconnect = Disconnect(self.flow.resume_reading)
        self._socket = self.transport.get_extra_info("socket")  # uvloop makes another each time
        if self._sending:
            self._sending.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._sending:
            self._sending.remove(self)
        for _, unread in self._unanswered:
            unread.release()
        super().connection_lost(exc)
        self._disconnect.comes()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        arrived = perf_counter()
        if self._is_new or self._intake.is_late:  # asking the kernel takes 3 µs
            arrived -= unread_s(self._socket)
            self._is_new = False
        self.scope["state"]["arrived"] = arrived
        self.scope["state"]["disconnect"] = self._disconnect

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        unread = self.scope["state"]["unread"] = Unread(self._intake.unread)
        self._unanswered.append((self.cycle, unread))

    def on_body(self, body: bytes) -> None:
        is_kept = self.cycle.response_complete or self._unanswered[-1][1].keeps(len(body))
        super().on_body(body if is_kept else b"")  # a reader of the body must notice that it is incomplete

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._unanswered[-1][1].is_whole = True

    def on_response_complete(self) -> None:
        cycle, unread = self._unanswered.popleft()
        cycle.body.clear()  # unread data: the connection may stay open for a minute
        unread.release()
        super().on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope = cast(Scope, cycle.scope)
        if path_of(scope) in PROBES:
            super()._start_asgi_task(cycle, app)
            return
        if delay_s := self._intake.delay_s:
            scope["state"]["delay_s"] = delay_s
        if self._intake.begins():
            super()._start_asgi_task(cycle, app)
        else:
            self._intake.wait(partial(super()._start_asgi_task, cycle, app))
