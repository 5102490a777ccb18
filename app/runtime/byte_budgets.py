"""Memory budgets: limits on the bytes that clients send, and on responses that they have not read yet."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import Overloaded

UNREAD, BODIES, STRANGERS, ANSWERS = 4, 16, 4, 16
"""Budgets as multiples of the largest size: see Rooms."""
PAUSE_S = 1.0
"""How long a refused client should wait."""
SMALL_BYTES = 1 << 16
"""Holders of no more than this count as small."""
FOR_LARGE = 0.75
"""The share of a budget that large holders may fill. Otherwise a few of them would shut out all small ones."""


class Room:
    """A budget of `most_bytes` for all holders together. `what` completes the error when it is full."""

    def __init__(self, most_bytes: int, what: str = "is being uploaded at once") -> None:
        self.most_bytes, self.what = most_bytes, what
        self._for_large = int(most_bytes * FOR_LARGE)
        self.taken = 0
        self.peak = 0
        """The peak since this was last reset."""

    def has(self, size: int, held: int = 0) -> bool:
        """Whether a holder of `held` bytes may take `size` more. A sole holder may take any size."""
        taken = self.taken
        if taken + size <= self._for_large or taken == held:
            return True
        return held + size <= SMALL_BYTES and taken + size <= self.most_bytes

    def add(self, size: int) -> None:
        """Takes `size` bytes, or returns them if negative."""
        self.taken = taken = self.taken + size
        if taken > self.peak:
            self.peak = taken

    def full(self) -> Overloaded:
        """The error for a full budget."""
        return Overloaded(f"Too much {self.what}.", retry_after_s=PAUSE_S)


@dataclass(frozen=True)
class Rooms:
    """The service's memory budgets."""

    unread: Room
    """Bodies that have arrived and are not being read yet."""
    bodies: Room
    """Bodies from authenticated clients."""
    strangers: Room
    """Bodies from clients whose key is in the body."""
    answers: Room
    """Responses that clients have not read yet."""

    @classmethod
    def of(cls, largest: int) -> Rooms:
        """For bodies and responses of up to `largest` bytes."""
        answers = Room(ANSWERS * largest, "response data is still unread by clients")
        return cls(Room(UNREAD * largest), Room(BODIES * largest), Room(STRANGERS * largest), answers)

    def all(self) -> tuple[Room, ...]:
        return self.unread, self.bodies, self.strangers, self.answers


class Place:
    """One request's share of a budget."""

    __slots__ = "room", "taken"

    def __init__(self, room: Room) -> None:
        self.room = room
        self.taken = 0

    def take(self, size: int) -> None:
        """Takes `size` bytes as they arrive, so that a false Content-Length reserves nothing. Raises Overloaded."""
        if not self.room.has(size, self.taken):
            raise self.room.full()
        self.room.add(size)
        self.taken += size

    def give_back(self) -> None:
        """Returns all bytes."""
        self.room.taken -= self.taken
        self.taken = 0

    def set(self, size: int) -> None:
        """Sets the share to `size` bytes, even if the budget is exceeded."""
        self.room.add(size - self.taken)
        self.taken = size
