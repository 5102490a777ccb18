"""The processes that read and write documents: jobs take turns, and what takes too much work or memory is killed.

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
    QUICK_WORK,
    Answer,
    Content,
    Failure,
    Job,
    Order,
    Refusal,
    Texts,
    budget_of,
    decode_answer,
)
from app.errors import InvalidFields, Unavailable
from app.runtime.child_process import ChildProcess
from app.runtime.frames import LENGTH_BYTES, encode_frame, frame_length

_MAX_WAIT_S = 1_800.0
"""For an answer, on a slow and busy machine. Only a process that somebody has stopped takes longer."""
_TOO_MUCH_WORK = "The file takes too much work to read or to write for its size."
_TOO_LONG = f"The file was not read or written within {_MAX_WAIT_S / 60:.0f} minutes on this machine."
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
        """The job's outcome, once it is its turn: the owners of waiting jobs take turns.

        Raises InvalidFields for a document that is refused, and Unavailable once the processes have stopped.
        """
        budget = budget_of(job)
        lane = self._slow if budget.work > QUICK_WORK else self._quick
        async with lane.turn(owner):
            answer = await lane.answer(Order(job, budget))
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
        self._next: ChildProcess | None = None
        """Started in the place of one that was killed, so that its imports delay nobody."""
        self._is_busy, self._has_stopped = False, False
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
            while turns and turns[0].cancelled():
                turns.popleft()
            if not turns:
                continue
            turns.popleft().set_result(None)
            if turns:
                self._waiting[owner] = turns
            return
        self._is_busy = False

    async def answer(self, order: Order) -> Answer:
        """What the process answers. If it ends instead, the document is refused. Raises Unavailable."""
        attempts = 0
        while attempts < _ATTEMPTS:
            running = self.running or await self._start()
            try:
                async with asyncio.timeout(_MAX_WAIT_S):
                    running.writer.write(encode_frame(order))
                    await running.writer.drain()
                    head = await running.reader.readexactly(LENGTH_BYTES)
                    answer = await running.reader.readexactly(frame_length(head))
                return decode_answer(answer)
            except TimeoutError:
                self._end(running)
                return Refusal("file", _TOO_LONG)
            except (OSError, EOFError):
                code = await self._end(running)
                if code == -signal.SIGPROF:
                    return Refusal("file", _TOO_MUCH_WORK)
                if code:  # otherwise it had done its share of documents
                    attempts += 1
                    log.warning("the process for documents ended with status %d in attempt %d", code, attempts)
            except BaseException:
                self._end(running)
                raise
        return Refusal("file", "The file cannot be read: the process that reads it does not survive it.")

    async def _start(self) -> _Running:
        if self._has_stopped:
            raise Unavailable("The service is shutting down.")
        process, self._next = self._next or self._launch(), None
        try:
            reader, writer = await asyncio.open_unix_connection(sock=process.end)
        except BaseException:
            process.end.close()
            self._kill(process)
            raise
        self.running = _Running(process, reader, writer)
        if self._has_stopped:  # meanwhile
            self._end(self.running)
            raise Unavailable("The service is shutting down.")
        return self.running

    def _end(self, running: _Running) -> asyncio.Task[int]:
        """As `_kill`, and starts the next process unless this is the end."""
        if self.running is running:
            self.running, self._next = None, None if self._has_stopped else self._launch()
        running.writer.transport.abort()
        return self._kill(running.process)

    def _kill(self, process: ChildProcess) -> asyncio.Task[int]:
        """Kills the process. Returns a task that waits for its exit status."""
        process.kill()
        task = asyncio.create_task(asyncio.to_thread(process.wait_code))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def stop(self) -> None:
        self._has_stopped = True
        if self.running:
            self._end(self.running)
        if self._next:
            self._next.end.close()
            self._kill(self._next)
        await asyncio.gather(*self._ending)
