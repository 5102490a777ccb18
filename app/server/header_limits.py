"""uvicorn's HTTP protocol with limits on the request head: its size, its transfer coding, and the time it may take to
arrive.

uvicorn with httptools has none of these: an endless URL or header fills the memory, and is copied again with every
chunk, which blocks all other requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 1 << 16
"""Maximum size of a head, not counting the chunk that ends it; as in h11, uvicorn's other parser."""


class HeaderLimitsProtocol(HttpToolsProtocol):
    """Counts bytes that neither end a head nor belong to a body; trailers and chunk sizes count too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._made_progress = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_timer()
        super().connection_lost(None)  # for which uvicorn cancels its timer; it does not if the client reset

    def data_received(self, data: bytes) -> None:
        self._made_progress = False
        super().data_received(data)
        if self._made_progress:
            self._head_bytes = 0
            self._unset_timer()
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse()
        elif self._timer is None:
            self._set_timer()

    def on_headers_complete(self) -> None:
        self._made_progress = True
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or self.parser.get_http_version() != "1.1"):
            # What is before us may have read another end of the body (RFC 9112, sections 6.1 and 6.3).
            raise ValueError("only HTTP/1.1 has a transfer coding, and we know only chunked")  # answered with 400
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._is_answering:  # the rest of a body is useless after the response
            self._made_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._made_progress = True
        super().on_message_complete()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self) -> None:
        if self._is_answering:
            self.transport.close()
        else:
            self.send_400_response("The request head is too long.")

    def _set_timer(self) -> None:
        self._timer = self.loop.call_later(self.timeout_keep_alive, self._on_timeout)

    def _unset_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        if self._is_answering:  # the next request may take as long again
            self._set_timer()
        else:
            self.transport.close()
