"""Handles Ctrl-C and SIGTERM during training: finishes and saves the current step first.

With several processes, each receives the signal at another moment: they must agree before one may stop.
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
    """A signal ended the work, between two steps and, in training, after saving."""

    def __init__(self, number: int = signal.SIGINT, saved: bool = False) -> None:
        super().__init__(number)
        self.number, self.saved = number, saved


@dataclass
class StopRequest:
    """The number of the signal received, if any."""

    urgent: bool = True
    number: int | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """A signal handler: the first signal is only recorded, the second acts at once if `urgent`."""
        if self.number is not None and self.urgent:
            raise Stopped(number)
        self.number = number
        if self.urgent:
            message = b"\nstopping after this step; again to stop at once\n"
            with suppress(OSError):  # the same Ctrl-C ended `tee`, and an error here would prevent saving
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, message)


@contextmanager
def stop_requests(urgent: bool = True) -> Iterator[StopRequest]:
    """A context in which SIGINT and SIGTERM are requests; in a thread, which receives no signals, it does nothing."""
    request = StopRequest(urgent)
    with _handling(request.handle):
        yield request


@contextmanager
def immediate_stop() -> Iterator[None]:
    """A context in which SIGTERM raises Stopped as Ctrl-C raises KeyboardInterrupt, so that it too can say how to
    resume."""
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


def python_command() -> str:
    """The running Python, for a shell: a checkout's .venv is not on the path."""
    python = Path(sys.executable)
    return shlex.quote(str(python.relative_to(Path.cwd()))) if python.is_relative_to(Path.cwd()) else "python"


def current_command() -> str:
    """The running command, for a shell."""
    count = processes_started()
    launcher = python_command() if count == 1 else f"torchrun --standalone --nproc-per-node {count}"
    return f"{launcher} -m training {shlex.join(sys.argv[1:])}"
