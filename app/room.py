"""Room for what clients send, so that many large files at once do not fill the memory. Knows bytes, and no request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import Overloaded

PAUSE_S = 1.0
"""After which there may be room again."""


class Room:
    """So many bytes at most, of all who are in it together."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.taken = 0

    @contextmanager
    def place(self) -> Iterator[Place]:
        """One's place in it; at the end, all that it took is given back."""
        place = Place(self)
        try:
            yield place
        finally:
            self.taken -= place.taken


class Place:
    """What one sender takes of a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.taken = 0

    def take(self, size: int) -> None:
        """So many bytes more, which are there: what is promised and does not come takes nothing. Raises Overloaded."""
        if self.room.taken + size > self.room.most_bytes:
            raise Overloaded("Too many files are being sent at once.", retry_after_s=PAUSE_S)
        self.room.taken += size
        self.taken += size
