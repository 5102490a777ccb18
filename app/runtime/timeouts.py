"""Timeouts of equal length for many tasks, with one timer."""

from __future__ import annotations

import asyncio
from types import TracebackType


class SharedTimeout:
    """A timeout of `seconds` for everything inside `with timeout.limit()`.

    Works like `asyncio.timeout`, but that creates a timer for each use: with two timeouts per request, a tenth of a
    short request's time. Timeouts that start first end first, so one timer, for the earliest, suffices.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._limits: dict[Limit, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def limit(self) -> Limit:
        """A context manager that cancels the task when the time is up, and then raises TimeoutError."""
        return Limit(self)

    def add(self, limit: Limit) -> None:
        self._limits[limit] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(limit.end, self._expire)

    def remove(self, limit: Limit) -> None:
        self._limits.pop(limit, None)
        if not self._limits and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._limits:
            first = next(iter(self._limits))
            if first.end > loop.time():
                self._timer = loop.call_at(first.end, self._expire)
                break
            del self._limits[first]
            first.expire()


class Limit:
    """One task's timeout."""

    def __init__(self, timeout: SharedTimeout) -> None:
        self._timeout = timeout

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelled_before = task, task.cancelling()
        self._expired = False
        self.end = task.get_loop().time() + self._timeout.seconds
        self._timeout.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timeout.remove(self)
        # Like asyncio.timeout: if the task was also cancelled by others, it stays cancelled.
        if self._expired and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self._expired = True
        self._task.cancel()
