"""Starts workers: as processes, or as threads in tests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from app.engine.ipc import FrontConnection, WorkerConnection
from app.engine.messages import ToFront

_ROOT = Path(__file__).resolve().parent.parent.parent
log = logging.getLogger(__name__)


class Worker(Protocol):
    """A started worker."""

    @property
    def pid(self) -> int | None:
        """Its process; None if it is a thread of this one."""
        ...

    def kill(self) -> None:
        """Ends it at once."""
        ...

    def wait(self) -> str:
        """Blocks until it has ended. Returns how it ended, in a few words."""
        ...


Launch = Callable[[socket.socket], Worker]
"""Starts a worker on its end of the socket, which the worker then owns."""


class WorkerProcess:
    """A worker in its own process. It exits when the front's end of the socket is closed."""

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
    """A worker in a thread, for tests: the same messages over the same kind of socket."""

    pid: int | None = None

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
        from app.engine.worker import work  # a late import: the front does not load PyTorch

        with self._end:
            try:
                work(FrontConnection(self._end))
            except BaseException as error:
                log.critical("the worker stopped", exc_info=error)
                self._reason = f"{type(error).__name__}: {error}"


async def launch_worker(launch: Launch, on_message: Callable[[ToFront], None]) -> tuple[WorkerConnection, Worker]:
    """Starts a worker and connects to it. Raises what `launch` raises."""
    ours, theirs = socket.socketpair()
    begun = False

    def start() -> Worker:
        nonlocal begun
        begun = True
        return launch(theirs)

    try:
        worker = await asyncio.to_thread(start)
    except BaseException:
        ours.close()
        if not begun:  # cancelled before a thread was free, so `launch` will not close it
            theirs.close()
        raise
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: WorkerConnection(on_message), sock=ours
    )
    return connection, worker
