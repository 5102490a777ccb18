"""Frames messages between the front and a worker, over one socket per worker.

A process that is killed in the middle of a frame leaves no lock behind: its peer reads the end of the stream.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, cast

import msgspec

from app.engine.messages import ToFront, ToWorker
from app.runtime.frames import LENGTH_BYTES, encode_frame, frame_length

M = TypeVar("M", ToWorker, ToFront)
FROM_FRONT: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
FROM_WORKER: msgspec.msgpack.Decoder[ToFront] = msgspec.msgpack.Decoder(ToFront)


class FrameDecoder(Generic[M]):
    """Assembles messages from the chunks that a socket delivers."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = decoder
        self._buffer = bytearray()

    def add(self, piece: bytes) -> Iterator[M]:
        """Yields the messages that `piece` completes. Raises msgspec.DecodeError."""
        self._buffer += piece
        start = 0
        while len(self._buffer) >= start + LENGTH_BYTES:
            end = start + LENGTH_BYTES + frame_length(self._buffer, start)
            if len(self._buffer) < end:
                break
            with memoryview(self._buffer) as view:
                message = self._decoder.decode(view[start + LENGTH_BYTES : end])
            start = end
            yield message
        del self._buffer[:start]


class FrontConnection:
    """The worker's end. Blocking, since a worker without work has nothing else to do."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._frame_decoder = end, FrameDecoder(FROM_FRONT)

    def receive(self, wait: bool) -> list[ToWorker] | None:
        """Returns the messages that have arrived; None once the front is gone. `wait`: block until bytes arrive."""
        try:
            piece = self._socket.recv(1 << 18, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return list(self._frame_decoder.add(piece)) if piece else None

    def send(self, message: ToFront) -> bool:
        """Returns False if the front is gone."""
        try:
            self._socket.sendall(encode_frame(message))
        except OSError:
            return False
        return True


class WorkerConnection(asyncio.Protocol):
    """The front's end, on its event loop. Calls `on_connected` once it can send, and `on_message` with each message.

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
