"""How messages cross between the front and a worker: framed, over a socket of their own.

A message is its length, four bytes, and MessagePack. Whoever is killed in the middle of a message leaves nothing locked
and nobody waiting: the other end reads that the socket is closed.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, cast

import msgspec

from app.engine.messages import ToFront, ToWorker

_LENGTH = struct.Struct("<I")


M = TypeVar("M", ToWorker, ToFront)
_encode = msgspec.msgpack.Encoder().encode
FROM_FRONT: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
FROM_WORKER: msgspec.msgpack.Decoder[ToFront] = msgspec.msgpack.Decoder(ToFront)


def encode_frame(message: ToWorker | ToFront) -> bytes:
    """A message as it goes over the socket."""
    content = _encode(message)
    return _LENGTH.pack(len(content)) + content


class FrameDecoder(Generic[M]):
    """Puts messages together from the pieces that a socket gives."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = decoder
        self._buffer = bytearray()

    def add(self, piece: bytes) -> Iterator[M]:
        """The messages that `piece` completes. Raises msgspec.DecodeError for what is none."""
        self._buffer += piece
        start = 0
        while len(self._buffer) >= start + _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(self._buffer, start)[0]
            if len(self._buffer) < end:
                break
            with memoryview(self._buffer) as view:
                message = self._decoder.decode(view[start + _LENGTH.size : end])
            start = end
            yield message
        del self._buffer[:start]


class FrontConnection:
    """The worker's end. It may wait, since a worker without work has nothing else to do."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._frame_decoder = end, FrameDecoder(FROM_FRONT)

    def receive(self, wait: bool) -> list[ToWorker] | None:
        """The messages that have arrived, or if `wait` at least a piece of one; None once the front is gone."""
        try:
            piece = self._socket.recv(1 << 18, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return list(self._frame_decoder.add(piece)) if piece else None

    def send(self, message: ToFront) -> bool:
        """False if the front is gone."""
        try:
            self._socket.sendall(encode_frame(message))
        except OSError:
            return False
        return True


class WorkerConnection(asyncio.Protocol):
    """The front's end, on its event loop. Calls `on_message` with each message.

    `closed` is done once the worker is gone.
    """

    def __init__(self, on_message: Callable[[ToFront], None]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_message, self._frame_decoder = on_message, FrameDecoder(FROM_WORKER)
        self._transport: asyncio.Transport | None = None

    def send(self, message: ToWorker) -> None:
        """Never waits; what the socket does not take yet is kept. To a worker that is gone nothing is sent."""
        assert self._transport is not None
        if not self._transport.is_closing():  # uvloop raises, where asyncio does not
            self._transport.write(encode_frame(message))

    def close(self) -> None:
        """Tells the worker to end."""
        assert self._transport is not None
        self._transport.close()

    def abort(self) -> None:
        """The connection ends now, whatever the worker has not read."""
        assert self._transport is not None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no common class

    def data_received(self, data: bytes) -> None:
        for message in self._frame_decoder.add(data):
            self._on_message(message)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
