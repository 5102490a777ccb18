"""The processes that read and write documents: jobs take turns, and what takes too long or too much is killed.

There are two, one for documents that are quickly done and one for the others, so that a report need not wait for a
book. Each starts with its first document and stays.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from asyncio import StreamReader, StreamWriter
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from app.documents.messages import (
    LENGTH_BYTES,
    QUICK_SECONDS,
    Answer,
    Content,
    Failure,
    Job,
    Order,
    Refusal,
    Texts,
    decode_answer,
    frame,
    length,
)
from app.errors import InvalidFields
from app.runtime.child_process import ChildProcess

_ATTEMPTS = 2
"""A process that ends during a job may have been killed for what another document left behind, or by hand."""
Launch = Callable[[], ChildProcess]
log = logging.getLogger(__name__)


def launch_worker() -> ChildProcess:
    """Starts a process for documents."""
    return ChildProcess("app.documents.worker")


class DocumentProcesses:
    """Does jobs with documents. Nothing of a job goes on once its task is cancelled."""

    def __init__(self, launch: Launch = launch_worker) -> None:
        self._quick, self._slow = _Lane(launch), _Lane(launch)

    async def run(self, job: Job, owner: str) -> Texts | Content:
        """The job's outcome, once it is its turn: the owners of waiting jobs take turns. Raises InvalidFields for a
        document that is refused."""
        budget = job.file.budget
        lane = self._slow if budget.seconds > QUICK_SECONDS else self._quick
        order = frame(Order(job, budget))
        async with lane.turn(owner):
            answer = await lane.answer(order)
        if isinstance(answer, Refusal):
            raise InvalidFields.at(f"#/{answer.field}", answer.message)
        if isinstance(answer, Failure):
            raise RuntimeError(answer.message)
        return answer

    def pids(self) -> list[int]:
        """The processes that run."""
        return [lane.running.process.pid for lane in (self._quick, self._slow) if lane.running]

    async def stop(self) -> None:
        """Ends both processes, whatever they do."""
        await asyncio.gather(self._quick.stop(), self._slow.stop())


class _Running(NamedTuple):
    process: ChildProcess
    reader: StreamReader
    writer: StreamWriter


class _Lane:
    """A process, and the jobs that wait for it."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.running: _Running | None = None
        self._is_busy = False
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By owner, in the order of their turns."""
        self._ending: set[asyncio.Task[int]] = set()

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """A context in which the process is the caller's alone."""
        if self._is_busy:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(owner, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        self._is_busy = True
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        """Gives the turn to the next owner."""
        while self._waiting:
            owner, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._is_busy = False

    async def answer(self, order: bytes) -> Answer:
        """What the process answers. If it ends instead, the document is refused."""
        for attempt in range(1, _ATTEMPTS + 1):
            running = self.running or await self._start()
            try:
                running.writer.write(order)
                await running.writer.drain()
                head = await running.reader.readexactly(LENGTH_BYTES)
                answer = await running.reader.readexactly(length(head))
                return decode_answer(answer)
            except (OSError, EOFError):
                code = await self._end()
                if code == -signal.SIGPROF:
                    return Refusal("file", "The file takes too long to read or to write for its size.")
                log.warning("the process for documents ended with status %d in attempt %d", code, attempt)
            except BaseException:
                self._end()
                raise
        return Refusal("file", "The file cannot be read: the process that reads it does not survive it.")

    async def _start(self) -> _Running:
        launching = asyncio.create_task(asyncio.to_thread(self._launch))
        try:
            process = await asyncio.shield(launching)
        except asyncio.CancelledError:
            await asyncio.wait([launching])  # the thread cannot be stopped
            if not launching.exception():
                launching.result().end.close()  # at which it exits
            raise
        try:
            reader, writer = await asyncio.open_unix_connection(sock=process.end)
        except BaseException:
            process.kill()
            raise
        self.running = _Running(process, reader, writer)
        return self.running

    def _end(self) -> asyncio.Task[int]:
        """Kills the process. Returns a task that waits for its exit status."""
        assert self.running
        process, _, writer = self.running
        self.running = None
        writer.transport.abort()
        process.kill()
        task = asyncio.create_task(asyncio.to_thread(process.wait_code))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def stop(self) -> None:
        if self.running:
            self._end()
        await asyncio.gather(*self._ending)
