"""The instances of one service on this machine answer each other's questions over Unix sockets.

Threads answer, since an instance's event loop may be busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from time import monotonic, sleep

TIMEOUT_S = 2.0
"""How long another instance may take to answer a question that needs no work."""
RETRY_INTERVAL_S = 0.2


class Peers:
    """The other instances, numbered from 0. Their sockets are in `folder`, which must be private to the service."""

    def __init__(self, folder: Path, number: int, instances: int) -> None:
        """`number`: that of this instance."""
        self.number = number
        self.others = [other for other in range(instances) if other != number]
        self._folder = folder
        self._server: _Server | None = None

    def serve(self, answers: Mapping[str, Callable[[], bytes]]) -> None:
        """Starts to answer questions, which are words. Replaces a process that had this number."""
        path = self._path(self.number)
        new = path.with_suffix(f".{os.getpid()}")
        self._server = _Server(str(new), answers)
        new.replace(path)
        threading.Thread(target=self._server.serve_forever, name="peers", daemon=True).start()

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()

    def ask(self, number: int, question: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """The answer of instance `number`, which may be starting. Blocks. Raises OSError."""
        until = monotonic() + timeout_s
        while True:
            try:
                return _ask(self._path(number), question, until)
            except (FileNotFoundError, ConnectionRefusedError):
                if monotonic() >= until:
                    raise
                sleep(RETRY_INTERVAL_S)

    def ask_all(self, question: str, timeout_s: float = TIMEOUT_S) -> dict[int, bytes]:
        """The answers of all other instances that give one in time, by number. Blocks."""
        until = monotonic() + timeout_s
        found: dict[int, bytes] = {}
        for number in self.others:
            with contextlib.suppress(OSError):
                found[number] = _ask(self._path(number), question, until)
        return found

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits until no other instance is in such a context. One that dies in it leaves it."""
        with (self._folder / "turn.lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the file is closed
                    break
                except BlockingIOError:
                    await asyncio.sleep(RETRY_INTERVAL_S)
            yield

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.socket"


def _ask(path: Path, question: str, until: float) -> bytes:
    """Raises OSError, also if no answer comes because the instance ends."""
    pieces = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(0.05, until - monotonic()))
        connection.connect(str(path))
        connection.sendall(question.encode())
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
            connection.settimeout(max(0.05, until - monotonic()))
    size, _, answer = b"".join(pieces).partition(b"\n")
    if not size or int(size) != len(answer):
        raise ConnectionResetError("the answer is incomplete")
    return answer


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str, answers: Mapping[str, Callable[[], bytes]]) -> None:
        self.answers = answers
        super().__init__(path, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores an instance that did not wait for the answer."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        answer = self.server.answers[self.rfile.read().decode()]()
        self.wfile.write(b"%d\n" % len(answer) + answer)
