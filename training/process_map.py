"""Maps a function over many pieces in several processes, with results in order."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

from model.machine import usable_cores

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_SPAWN = get_context("spawn")


def process_count(requested: int | None, much: bool, cores: Callable[[], int] = usable_cores) -> int:
    """The number of processes: `requested` if given, else one per core if there is `much` work, else 1."""
    return requested or (cores() if much else 1)


def map_in_order(work: Callable[[Piece], Result], pieces: Iterable[Piece], processes: int) -> Iterator[Result]:
    """The results of `work` for all pieces, in order. Reads a few pieces ahead of the results requested.

    One process means this process. More are spawned, so that `work` and the pieces must be picklable. A caller that
    stops iterating waits for nothing. Raises ValueError if a process is killed.
    """
    if processes == 1:
        yield from map(work, pieces)
        return
    workers: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()
    waiting: deque[Future[Result]] = deque()

    def run_on_worker(piece: Piece) -> Result:
        worker = idle.get()
        try:
            return worker.result_of(work, piece)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(processes)
    try:
        for piece in pieces:
            if len(workers) < processes:
                workers.append(_Worker())
                idle.put(workers[-1])
            waiting.append(threads.submit(run_on_worker, piece))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for worker in workers:
            worker.end()
        threads.shutdown(cancel_futures=True)


class _Worker:
    """A worker process with a pipe of its own.

    ProcessPoolExecutor and loky (3.7) share one pipe among all workers: if a worker is killed in the middle of a
    result, they wait for its rest forever.
    """

    def __init__(self) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work_loop, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def result_of(self, work: Callable[[Piece], Result], piece: Piece) -> Result:
        try:
            self._pipe.send((work, piece))
            result, error = self._pipe.recv()
        except (EOFError, OSError):
            raise ValueError("a worker process was killed, perhaps for lack of memory: use fewer") from None
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _work_loop(pipe: Connection[Any, Any]) -> None:
    """The worker's main loop, which ends when it is killed or the parent is gone."""
    _exit_with_parent()
    while True:
        try:
            work, piece = pipe.recv()
        except EOFError:
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = work(piece), None
        except Exception as error:
            error.add_note(traceback.format_exc())  # the traceback is not pickled
            answer = None, error
        pipe.send(answer)


def _exit_with_parent() -> None:
    """Leaves Ctrl-C to the parent, and ends this process when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def end_with_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()
