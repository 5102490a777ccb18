"""Notifies a client's pending work that the client has disconnected."""

from __future__ import annotations

from collections.abc import Callable


class Disconnect:
    """A client's disconnection and its callbacks.

    `resume` resumes reading from the client: a disconnection is noticed only while reading.
    """

    __slots__ = "_callbacks", "_resume", "is_set"

    def __init__(self, resume: Callable[[], object]) -> None:
        self._resume = resume
        self._callbacks: set[Callable[[], object]] = set()
        self.is_set = False

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Calls `callback` when the client disconnects. The client must still be connected."""
        self._callbacks.add(callback)
        self._resume()

    def remove_callback(self, callback: Callable[[], object]) -> None:
        self._callbacks.discard(callback)

    def set(self) -> None:
        """Marks the client as disconnected and calls the callbacks."""
        self.is_set = True
        callbacks, self._callbacks = self._callbacks, set()
        for callback in callbacks:
            callback()
