"""The front's end of the socket between it and a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from app.engine.ipc import FROM_WORKER, FrameDecoder
from app.engine.messages import ToFront, ToWorker
from app.runtime.frames import encode_frame


class WorkerConnection(asyncio.Protocol):
    """On the event loop of the front. Calls `on_connected` once it can send, and `on_message` with each message.

    `closed` is done once the worker is gone.
    """

    def __init__(self, on_connected: Callable[[WorkerConnection], None], on_message: Callable[[ToFront], None]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_connected, self._on_message = on_connected, on_message
        self._frame_decoder = FrameDecoder(FROM_WORKER)
        self._transport: asyncio.Transport | None = None

    def send(self, message: ToWorker) -> None:
        """Sends without waiting: the transport buffers what the socket does not take. Does nothing once it closes."""
        assert self._transport is not None
        if not self._transport.is_closing():  # uvloop raises, where asyncio does not
            self._transport.write(encode_frame(message))

    def close(self) -> None:
        """Closes the connection, at which the worker exits."""
        assert self._transport is not None
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once, and drops what the worker has not read."""
        assert self._transport is not None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's
        self._on_connected(self)

    def data_received(self, data: bytes) -> None:
        for message in self._frame_decoder.add(data):
            self._on_message(message)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
