"""Notifies a client's pending work that it has disconnected."""

from __future__ import annotations

from collections.abc import Callable


class Disconnect:
    """Whether a client has left, and callbacks for when it does. `resume` resumes reading, without which it goes
    unnoticed."""

    __slots__ = "_resume", "_told", "has_come"

    def __init__(self, resume: Callable[[], object]) -> None:
        self._resume = resume
        self._told: set[Callable[[], object]] = set()
        self.has_come = False

    def add(self, tell: Callable[[], object]) -> None:
        """Registers `tell` to be called when the client leaves, which must not have happened yet."""
        self._told.add(tell)
        self._resume()

    def remove(self, tell: Callable[[], object]) -> None:
        self._told.discard(tell)

    def comes(self) -> None:
        """Marks the client as disconnected, and calls the callbacks."""
        self.has_come = True
        told, self._told = self._told, set()
        for tell in told:
            tell()
