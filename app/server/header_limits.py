"""uvicorn's HTTP, with bounds for the head of a request: how long it may be, and how long it may take to come.

Knows connections. uvicorn over httptools has neither: an address or a header without an end fills the memory, and is
copied anew with every piece that comes, in which nobody else is answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES = 1 << 16
"""Of a head; beyond what comes with its end in one piece. So it is in h11, uvicorn's other parser."""


class BoundedHeads(HttpToolsProtocol):
    """Counts what comes and neither ends a head nor is of a body: trailers, and the sizes of chunks, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unended = 0
        self._came_on = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._came_on = False
        super().data_received(data)
        if self._came_on:
            self._unended = 0
            self._unset_timer()
            return
        self._unended += len(data)
        if self._unended > MOST_BYTES and not self.transport.is_closing():
            self._refuse()
        elif self._timer is None:
            self._set_timer()

    def on_headers_complete(self) -> None:
        self._came_on = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._came_on = self._came_on or self._is_answering  # what comes of it after the answer is of no use
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._came_on = True
        super().on_message_complete()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self) -> None:
        if self._is_answering:
            self.transport.close()
        else:
            self.send_400_response("The head of the request is too long.")

    def _set_timer(self) -> None:
        self._timer = self.loop.call_later(self.timeout_keep_alive, self._end)

    def _unset_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self._is_answering:  # the next request may take as long as this one
            self._set_timer()
        else:
            self.transport.close()
