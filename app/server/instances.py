"""Several instances of the service that accept connections from the same sockets, and the process that keeps them
running.

uvicorn's supervisor cannot do this: it makes uvicorn's own server, tells no process which one it is, ends them all if
one cannot start again, and does not notice an event loop that is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import uvicorn
from msgspec import Struct

from app.runtime.supervision import SUPERVISION, Supervision
from app.server.server import Server
from app.server.state import app_state

REPORT_INTERVAL_S = 1.0
_ROOT = Path(__file__).resolve().parent.parent.parent
log = logging.getLogger(__name__)


class InstanceConfig(Struct, frozen=True):
    """What an instance is told by its supervisor."""

    number: int
    """Counts from 0."""
    instances: int
    workers: int
    """Of all instances."""
    options: dict[str, str]
    """Options of the command line, by setting."""
    folder: str
    """A private folder for the sockets over which instances talk."""
    sockets: list[int]
    """Descriptors of the listening sockets."""
    admin: int | None
    """Descriptor of the admin port's socket."""
    supervisor: int = -1
    """Descriptor of the connection to the supervisor."""
    waits: bool = False
    """Whether it accepts connections only once its workers are ready, since other instances do so meanwhile."""


class InstanceServer(Server):
    """A server that tells the supervisor that its event loop runs, and stops once the supervisor is gone."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain_s: float,
        instance: InstanceConfig,
        until_ready: Callable[[], Awaitable[object]],
    ) -> None:
        """`until_ready` waits until the workers have started."""
        super().__init__(config, drain_s, instance.instances)
        self._instance, self._until_ready = instance, until_ready
        self._reporting: asyncio.Task[None] | None = None

    def listen(self, sockets: list[socket.socket]) -> None:
        if not self._instance.waits:
            super().listen(sockets)
        self._reporting = asyncio.get_running_loop().create_task(self._report(sockets))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self._reporting:
            self._reporting.cancel()

    async def _report(self, sockets: list[socket.socket]) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=self._instance.supervisor))
        watching = asyncio.create_task(self._stop_when_told(reader))
        try:
            await self._until_ready()
            if self._instance.waits and not self.should_exit:
                super().listen(sockets)
            while True:
                writer.write(b".")
                await asyncio.sleep(REPORT_INTERVAL_S)
        finally:
            watching.cancel()
            writer.close()

    async def _stop_when_told(self, supervisor: asyncio.StreamReader) -> None:
        """Stops once the supervisor has said that another process takes over, or once it has died."""
        with suppress(OSError):
            if await supervisor.read(1):
                # Nobody has to look for another address meanwhile, and a balancer that found this one not ready would
                # take it for the service.
                self.drain_s = 0.0
                app_state(self.lifespan.state).shutdown.is_replaced = True
        signal.raise_signal(signal.SIGTERM)  # after which the watchdog, too, expects an end


class _Instance(asyncio.Protocol):
    """A process. The supervisor's end of the connection to it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.ended = asyncio.create_task(process.wait())
        self.ready = asyncio.Event()
        self.silent_checks = 0
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.silent_checks = 0
        self.ready.set()

    def replace(self) -> None:
        """Tells it to finish what it has accepted, and to leave what comes to the others."""
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write(b".")

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)


class Supervisor:
    """Runs the instances until SIGTERM or SIGINT, restarts those that die or hang, and all, in turn, at SIGHUP."""

    def __init__(
        self, config: InstanceConfig, sockets: list[socket.socket], supervision: Supervision = SUPERVISION
    ) -> None:
        """`config`: that of each instance but for its number. `sockets`: those that it names, closed by `run`."""
        self._config, self._sockets, self._supervision = config, sockets, supervision
        self._current: dict[int, _Instance] = {}
        self._running: set[_Instance] = set()
        self._stopping = asyncio.Event()
        self._restarting = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._status = 0

    async def run(self) -> int:
        """Returns the exit status: 1 if an instance could not start at first."""
        loop = asyncio.get_running_loop()
        for number in signal.SIGTERM, signal.SIGINT:
            loop.add_signal_handler(number, self._stop, number)
        if not os.isatty(0):  # else it says that the terminal was closed
            loop.add_signal_handler(signal.SIGHUP, self._start_task, self._restart_all)
        watching = asyncio.create_task(self._kill_hanging())
        await asyncio.gather(*(self._keep_running(number) for number in range(self._config.instances)))
        await asyncio.gather(*(instance.ended for instance in self._running))
        watching.cancel()
        return self._status

    def _start_task(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.ensure_future(work())
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self, number: signal.Signals) -> None:
        """Tells all instances to finish what they have accepted, and at a second SIGINT to end at once."""
        if self._stopping.is_set() and number == signal.SIGTERM:
            return
        forwarded = signal.SIGINT if self._stopping.is_set() else signal.SIGTERM
        self._stopping.set()
        for each in self._sockets:  # else connections would wait here that no instance accepts
            each.close()
        for instance in self._running:
            instance.send_signal(forwarded)

    async def _keep_running(self, number: int) -> None:
        supervision = self._supervision
        loop = asyncio.get_running_loop()
        instance = await self._launch(number, waits=number > 0)
        first, deaths = True, 0
        while True:
            began = loop.time()
            status = await instance.ended
            if self._stopping.is_set():
                return
            if self._current[number] is not instance:  # replaced
                instance, first = self._current[number], False
                continue
            if first and status > 0 and not instance.ready.is_set():
                log.critical("instance %d could not start", number)
                self._status = 1
                self._stop(signal.SIGTERM)
                return
            how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            log.critical("instance %d has died: %s", number, how)
            if loop.time() - began > supervision.healthy_after_s:
                deaths = 0
            first, delays_s = False, supervision.restart_delays_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delays_s[min(deaths, len(delays_s) - 1)])
            if self._stopping.is_set():
                return
            deaths += 1
            instance = await self._launch(number, waits=True)

    async def _launch(self, number: int, waits: bool) -> _Instance:
        """Starts a process, which becomes the current one of its number."""
        instance = await self._start(number, waits)
        self._current[number] = instance
        return instance

    async def _start(self, number: int, waits: bool) -> _Instance:
        ours, theirs = socket.socketpair()
        with theirs:
            admin = None if number else self._config.admin
            config = msgspec.structs.replace(
                self._config, number=number, admin=admin, supervisor=theirs.fileno(), waits=waits
            )
            path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app", "instance", msgspec.json.encode(config).decode()),
                pass_fds=[*config.sockets, theirs.fileno(), *([] if admin is None else [admin])],
                env={**os.environ, "PYTHONPATH": path},
            )
        instance = _Instance(process)
        await asyncio.get_running_loop().create_unix_connection(lambda: instance, sock=ours)
        self._running.add(instance)
        instance.ended.add_done_callback(lambda _: self._running.discard(instance))
        if self._stopping.is_set():
            instance.send_signal(signal.SIGTERM)
        return instance

    async def _restart_all(self) -> None:
        """Replaces each instance once a new one is ready. Stops at one that cannot start."""
        async with self._restarting:
            log.info("restarting all instances")
            for number in range(self._config.instances):
                if self._stopping.is_set():
                    return
                new = await self._start(number, waits=True)
                ready = asyncio.create_task(new.ready.wait())
                await asyncio.wait([ready, new.ended], return_when=asyncio.FIRST_COMPLETED)
                if not new.ready.is_set():
                    ready.cancel()
                    log.error("instance %d could not be replaced; keeping the old one", number)
                    return
                old, self._current[number] = self._current[number], new
                old.replace()
                await old.ended

    async def _kill_hanging(self) -> None:
        supervision = self._supervision
        while True:
            await asyncio.sleep(supervision.check_interval_s)
            for instance in list(self._running):
                limit = (
                    supervision.max_silent_checks if instance.ready.is_set() else supervision.max_silent_checks_loading
                )
                instance.silent_checks += 1
                if instance.silent_checks > limit:
                    log.critical("process %d hangs", instance.process.pid)
                    instance.send_signal(signal.SIGKILL)
