"""The same work on many pieces by several processes, the results in order. Knows nothing of the work."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share(asked: int | None, much: bool) -> int:
    """How many processes share the work: as many as asked for, else one a core, if there is `much`."""
    return asked or (cores() if much else 1)


def in_order(work: Callable[[Piece], Result], pieces: Iterable[Piece], processes: int) -> Iterator[Result]:
    """`work` of every piece, in the order of the pieces; a few more are taken than results were asked for.

    With one process it is done here. With more, `work` and the pieces go to fresh processes, hence must pickle.
    Raises ValueError if one of those is killed.
    """
    if processes == 1:
        yield from map(work, pieces)
        return
    executor = ProcessPoolExecutor(processes, get_context("spawn"), _only_as_long_as_the_parent)
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            waiting.append(executor.submit(work, piece))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ValueError("a process was killed at its work, for want of memory perhaps: use fewer") from None
    finally:
        executor.shutdown(cancel_futures=True)


def _only_as_long_as_the_parent() -> None:
    """In a new process: Ctrl-C is for the parent to answer, and once that was killed there is nobody to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def end_with_it() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_it, daemon=True).start()
