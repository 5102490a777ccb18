"""Starts workers: as processes, or as threads in tests."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self

from app.engine.ipc import FrontConnection
from app.engine.messages import ToFront, WorkerConfig
from app.engine.worker_connection import WorkerConnection
from app.runtime.child_process import ChildProcess
from app.runtime.frames import encode_frame

log = logging.getLogger(__name__)


class Worker(Protocol):
    """A started worker."""

    end: socket.socket
    """The front's end of the connection."""

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


Launch = Callable[[WorkerConfig], Worker]
"""Starts a worker and sends it its configuration."""


class WorkerProcess(ChildProcess):
    """A worker in its own process. It exits when the front's end of the connection is closed."""

    def __init__(self, config: WorkerConfig | None = None) -> None:
        """`config`: None to send it later, with `configure`."""
        super().__init__("app.engine.worker")
        if config:
            self.configure(config)

    def configure(self, config: WorkerConfig) -> None:
        """Sends the configuration, once. Blocks until the process has read most of a long one."""
        with suppress(OSError):  # it has ended, as the closed connection will show
            self.end.sendall(encode_frame(config))


class EarlyWorkers:
    """Worker processes started ahead of their configuration, so that they import while the front reads the bundles.

    As a `Launch`, it hands these out to whoever needs workers with that configuration, and then starts others. As a
    context, it ends those that are left.
    """

    def __init__(self, count: int) -> None:
        self._config: WorkerConfig | None = None
        self._left = [WorkerProcess() for _ in range(count)]

    def configure(self, config: WorkerConfig) -> None:
        """Sends the configuration, once, so that the workers load and check the bundles before they are handed out."""
        self._config = config
        for worker in self._left:
            worker.configure(config)

    def __call__(self, config: WorkerConfig) -> Worker:
        if config == self._config:
            with suppress(IndexError):  # threads call this
                return self._left.pop()
        return WorkerProcess(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._left:
            worker.end.close()
            worker.kill()  # while it imports it would not notice
            worker.wait()
        self._left.clear()


class InProcessWorker:
    """A worker in a thread, for tests: the same messages over the same kind of socket."""

    pid: int | None = None

    def __init__(self, config: WorkerConfig) -> None:
        self.end, self._theirs = socket.socketpair()
        self._reason = "ended"
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()
        self.end.sendall(encode_frame(config))

    def kill(self) -> None:
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)

    def wait(self) -> str:
        self._thread.join()
        return self._reason

    def _run(self) -> None:
        from app.engine.worker import work  # a late import: the front does not load PyTorch

        with self._theirs:
            try:
                work(FrontConnection(self._theirs))
            except BaseException as error:
                log.critical("the worker stopped", exc_info=error)
                self._reason = f"{type(error).__name__}: {error}"


async def launch_worker(
    launch: Launch,
    config: WorkerConfig,
    on_connected: Callable[[WorkerConnection, Worker], None],
    on_message: Callable[[ToFront], None],
) -> tuple[WorkerConnection, Worker]:
    """Starts a worker and connects to it. Raises what `launch` raises.

    A worker that was started early may have loaded long ago. Its first message then arrives before this returns, but
    never before `on_connected` is called.
    """
    launching = asyncio.create_task(asyncio.to_thread(launch, config))
    try:
        worker = await asyncio.shield(launching)
    except asyncio.CancelledError:
        await asyncio.wait([launching])  # the thread cannot be stopped
        if not launching.exception():
            launching.result().end.close()
        raise
    _, connection = await asyncio.get_running_loop().create_unix_connection(
        lambda: WorkerConnection(lambda connection: on_connected(connection, worker), on_message), sock=worker.end
    )
    return connection, worker
