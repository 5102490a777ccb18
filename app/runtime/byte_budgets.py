"""Bounds for bytes in memory: what clients send, and what they have not taken yet. Knows bytes, and no request."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import Overloaded

UNREAD, BODIES, STRANGERS, ANSWERS = 4, 16, 4, 16
"""So many of the largest size are held at once: see Rooms."""
PAUSE_S = 1.0
"""After which there may be room again."""
SMALL_BYTES = 1 << 16
"""Who holds no more than this is small."""
FOR_LARGE = 0.75
"""The share of a room that large ones may fill. Else a few of them would keep all the small ones out."""


class Room:
    """At most `most_bytes`, of all who are in it together. `what` is there too much of, when it is full."""

    def __init__(self, most_bytes: int, what: str = "is being sent at once") -> None:
        self.most_bytes, self.what = most_bytes, what
        self._for_large = int(most_bytes * FOR_LARGE)
        self.taken = 0
        self.peak = 0
        """The most that was taken since somebody last set this."""

    def has(self, size: int, held: int = 0) -> bool:
        """Whether one who holds `held` bytes may have `size` more. What is alone in the room may be of any size."""
        taken = self.taken
        if taken + size <= self._for_large or taken == held:
            return True
        return held + size <= SMALL_BYTES and taken + size <= self.most_bytes

    def add(self, size: int) -> None:
        """`size` bytes are taken, or with a minus given back."""
        self.taken = taken = self.taken + size
        if taken > self.peak:
            self.peak = taken

    def full(self) -> Overloaded:
        """The error of one for whom there is no room."""
        return Overloaded(f"Too much {self.what}.", retry_after_s=PAUSE_S)


@dataclass(frozen=True)
class Rooms:
    """What the service has room for."""

    unread: Room
    """What has come of bodies that nobody has begun to read."""
    bodies: Room
    """What is sent by those who are known."""
    strangers: Room
    """What is sent by those whose key comes in the body."""
    answers: Room
    """What was answered and has not been taken by who asked."""

    @classmethod
    def of(cls, largest: int) -> Rooms:
        """For bodies and answers of `largest` bytes."""
        answers = Room(ANSWERS * largest, "of what was answered is not taken yet")
        return cls(Room(UNREAD * largest), Room(BODIES * largest), Room(STRANGERS * largest), answers)

    def all(self) -> tuple[Room, ...]:
        return self.unread, self.bodies, self.strangers, self.answers


class Place:
    """What one request takes of a room."""

    __slots__ = "room", "taken"

    def __init__(self, room: Room) -> None:
        self.room = room
        self.taken = 0

    def take(self, size: int) -> None:
        """`size` bytes more, which are there: what is promised and does not come takes nothing. Raises Overloaded."""
        if not self.room.has(size, self.taken):
            raise self.room.full()
        self.room.add(size)
        self.taken += size

    def give_back(self) -> None:
        """All of it."""
        self.room.taken -= self.taken
        self.taken = 0

    def set(self, size: int) -> None:
        """It is `size` bytes now, whether there is room for them or not."""
        self.room.add(size - self.taken)
        self.taken = size
