"""Handles Ctrl-C and SIGTERM during training, so that the current step is finished and saved.

Several processes receive a signal at different moments: they must agree before any of them stops.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

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
        """Handles a signal: records the first one; raises Stopped for a second one if `urgent`."""
        if self.number is not None and self.urgent:
            raise Stopped(number)
        self.number = number
        if self.urgent:
            message = b"\nstopping after this step; again to stop at once\n"
            with suppress(OSError):  # the same Ctrl-C may have ended `tee`, and an error here would prevent saving
                os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, message)


@contextmanager
def stop_requests(urgent: bool = True) -> Iterator[StopRequest]:
    """A context in which SIGINT and SIGTERM are recorded as requests. Does nothing in threads, which get no signals."""
    request = StopRequest(urgent)
    with _handling(request.handle):
        yield request


@contextmanager
def immediate_stop() -> Iterator[None]:
    """A context in which SIGTERM and Ctrl-C raise Stopped at once, so that the command can print how to resume."""
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
