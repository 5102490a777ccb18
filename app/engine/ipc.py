"""What the front and a worker say to each other, over a socket of their own.

A message is its length, four bytes, and a tuple of plain values as `marshal` writes them: both ends are one program, in
one interpreter's version. Whoever is killed in the middle of a message leaves nothing locked and nobody waiting: the
other end reads that the socket is closed.

    front to worker   first  Order, as a tuple
                      then   (tasks, cancelled numbers)
    worker to front   first  Greeting, as a tuple
                      then   (results, failures, steps)

A task is (number, model, source, limit, forced, record, once, never, width, prefix, ahead); a result (number,
seconds waited, attention, hypotheses); a failure a number; a step (model, rows, seconds). `model` counts in the
order's bundles. Hypotheses are as app/engine/messages.py tells them.
"""

from __future__ import annotations

import asyncio
import marshal
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

_LENGTH = struct.Struct("<I")


class Order(NamedTuple):
    """What a worker has to load: bundles as (folder, name), a device, a precision."""

    bundles: list[tuple[str, str]]
    device: str
    precision: str
    threads: int
    rows: int
    """Sentences decoded together; 0: what suits the device."""


class Greeting(NamedTuple):
    """What a worker has loaded. If `failure` is not empty it could not, and ends."""

    failure: str
    rows: int
    precisions: list[str]


def frame(message: tuple[Any, ...]) -> bytes:
    """A message as it goes over the socket."""
    content = marshal.dumps(tuple(message))
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Puts messages together from the pieces that a socket gives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, piece: bytes) -> Iterator[Any]:
        """The messages that `piece` completes."""
        self._buffer += piece
        start = 0
        while len(self._buffer) >= start + _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(self._buffer, start)[0]
            if len(self._buffer) < end:
                break
            with memoryview(self._buffer) as view:
                message = marshal.loads(view[start + _LENGTH.size : end])
            start = end
            yield message
        del self._buffer[:start]


class Channel:
    """The worker's end. It may wait, since a worker without work has nothing else to do."""

    def __init__(self, end: socket.socket) -> None:
        self._socket, self._frames = end, Frames()

    def receive(self, wait: bool) -> list[Any] | None:
        """The messages that have arrived, or if `wait` at least a piece of one; None once the front is gone."""
        try:
            piece = self._socket.recv(1 << 18, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return list(self._frames.add(piece)) if piece else None

    def send(self, message: tuple[Any, ...]) -> bool:
        """False if the front is gone."""
        try:
            self._socket.sendall(frame(message))
        except OSError:
            return False
        return True


class Link(asyncio.Protocol):
    """The front's end, on its event loop. `heard` is given each message; `closed` is done once the worker is gone."""

    def __init__(self, heard: Callable[[Any], None]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard, self._frames = heard, Frames()
        self._transport: asyncio.Transport | None = None

    def send(self, message: tuple[Any, ...]) -> None:
        """Never waits; what the socket does not take yet is kept. To a worker that is gone nothing is sent."""
        assert self._transport is not None
        if not self._transport.is_closing():  # uvloop raises, where asyncio does not
            self._transport.write(frame(message))

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
        for message in self._frames.add(data):
            self._heard(message)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
