"""The end of a connection by its client, as those see it who work for that client. Knows neither HTTP nor requests."""

from __future__ import annotations

from collections.abc import Callable


class Disconnect:
    """Whether a client has left, and who is to be told. `resume` lets the connection be read, or it is never seen."""

    __slots__ = "_resume", "_told", "has_come"

    def __init__(self, resume: Callable[[], object]) -> None:
        self._resume = resume
        self._told: set[Callable[[], object]] = set()
        self.has_come = False

    def add(self, tell: Callable[[], object]) -> None:
        """Has `tell` called when the client leaves, who must still be there."""
        self._told.add(tell)
        self._resume()

    def remove(self, tell: Callable[[], object]) -> None:
        self._told.discard(tell)

    def comes(self) -> None:
        """The client has left."""
        self.has_come = True
        told, self._told = self._told, set()
        for tell in told:
            tell()
