"""Ctrl-C and SIGTERM while a run trains: the step is finished and saved first. Knows signals, and nothing of training.

In a run of several processes each hears the signal at another moment: they must agree on it before one may stop.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from training.optim.distributed import processes_started

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal ended the work, between two steps and after saving if it was training."""

    def __init__(self, number: int = signal.SIGINT, saved: bool = False) -> None:
        super().__init__(number)
        self.number, self.saved = number, saved


@dataclass
class StopRequest:
    """The number of the signal that came, if one did."""

    urgent: bool = True
    number: int | None = None

    def heard(self, number: int, frame: FrameType | None) -> None:
        """A signal handler: the first signal is only remembered, the second does not wait if it is `urgent`."""
        if self.number is not None and self.urgent:
            raise Stopped(number)
        self.number = number
        if self.urgent:
            message = b"\nstopping after this step; again to stop at once\n"
            with suppress(OSError):  # the same Ctrl-C ended `tee`, and an error here would come before the saving
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, message)


@contextmanager
def stop_requests(urgent: bool = True) -> Iterator[StopRequest]:
    """Within it, SIGINT and SIGTERM are requests; in a thread, where signals never come, it does nothing."""
    request = StopRequest(urgent)
    with _handling(request.heard):
        yield request


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Within it, SIGTERM raises Stopped as Ctrl-C raises KeyboardInterrupt, so that it too can say how to go on."""
    with _handling(_stop):
        yield


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def python_here() -> str:
    """The Python that runs now, for a shell: that of a checkout's .venv is not on the path."""
    python = Path(sys.executable)
    return shlex.quote(str(python.relative_to(Path.cwd()))) if python.is_relative_to(Path.cwd()) else "python"


def this_command() -> str:
    """The command that runs now, for a shell."""
    count = processes_started()
    launcher = python_here() if count == 1 else f"torchrun --standalone --nproc-per-node {count}"
    return f"{launcher} -m training {shlex.join(sys.argv[1:])}"
