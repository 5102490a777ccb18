"""What the front and a worker say to each other, over a socket of their own, and how a worker is started.

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
import contextlib
import logging
import marshal
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

_LENGTH = struct.Struct("<I")
_ROOT = Path(__file__).resolve().parent.parent.parent
log = logging.getLogger(__name__)


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


class Worker(Protocol):
    """A started worker, to be ended."""

    def kill(self) -> None:
        """Ends it at once, whatever it does."""
        ...

    def wait(self) -> str:
        """Blocks until it has ended; how it did, in a few words."""
        ...


Launch = Callable[[socket.socket], Worker]
"""Starts a worker at its end of the socket, which is then the worker's to close."""


class WorkerProcess:
    """A worker as a process of its own: the real one. It ends when the front's end of the socket is closed."""

    def __init__(self, end: socket.socket) -> None:
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        with end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "app.engine.worker", str(end.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[end.fileno()],
                env={**os.environ, "PYTHONPATH": path},
            )
        self.pid = self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> str:
        code = self._process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


class InProcessWorker:
    """A worker as a thread of this process, for tests: the same words over the same socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._reason = "ended"
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def wait(self) -> str:
        self._thread.join()
        return self._reason

    def _run(self) -> None:
        from app.engine.worker import work  # not above: the front itself does without

        with self._end:
            try:
                work(Channel(self._end))
            except BaseException as error:
                log.critical("the worker stopped", exc_info=error)
                self._reason = f"{type(error).__name__}: {error}"


class Link(asyncio.Protocol):
    """The front's end, on its event loop. `heard` is given each message; `closed` is done once the worker is gone."""

    def __init__(self, heard: Callable[[Any], None]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard, self._frames = heard, Frames()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, launch: Launch, heard: Callable[[Any], None]) -> tuple[Link, Worker]:
        """Starts a worker and the connection with it. Raises what `launch` does."""
        ours, theirs = socket.socketpair()
        try:
            worker = await asyncio.to_thread(launch, theirs)
        except BaseException:
            ours.close()
            raise
        _, link = await asyncio.get_running_loop().create_unix_connection(lambda: cls(heard), sock=ours)
        return link, worker

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
