"""Frames messages between the front and a worker, over one socket per worker, and the worker's end.

A process that is killed in the middle of a frame leaves no lock behind: its peer reads the end of the stream. The
front's end is in `app.engine.worker_connection`, so that a worker does without asyncio's 2 MiB.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Generic, TypeVar

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
