"""Memory budgets: limits on the bytes that clients send, and on responses that they have not read yet."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import Overloaded

UNREAD_MULTIPLE, BODIES_MULTIPLE, UNAUTHENTICATED_MULTIPLE, RESPONSES_MULTIPLE = 4, 16, 4, 16
"""Budgets as multiples of the largest size: see ByteBudgets."""
FORM_OVERHEAD_BYTES = 1 << 16
"""What a multipart body may have besides its file: the fields and the boundaries."""
RETRY_AFTER_S = 1.0
"""How long a refused client should wait."""
SMALL_BYTES = 1 << 16
"""Maximum size of a small reservation."""
MAX_LARGE_SHARE = 0.75
"""The share of a budget that large reservations may fill. Otherwise a few of them would shut out all small ones."""


class ByteBudget:
    """A budget of `max_bytes` for all reservations together. `what` completes the error when it is full."""

    def __init__(self, max_bytes: int, what: str = "is being uploaded at once") -> None:
        self.max_bytes, self.what = max_bytes, what
        self._max_large_bytes = int(max_bytes * MAX_LARGE_SHARE)
        self.used = 0
        self.peak = 0
        """The peak of `used` since this was last reset."""

    def fits(self, size: int, held: int = 0) -> bool:
        """Whether a reservation of `held` bytes may grow by `size`. A sole reservation may have any size."""
        used = self.used
        if used + size <= self._max_large_bytes or used == held:
            return True
        return held + size <= SMALL_BYTES and used + size <= self.max_bytes

    def add(self, size: int) -> None:
        """Takes `size` bytes, or returns them if negative."""
        self.used = used = self.used + size
        if used > self.peak:
            self.peak = used

    def overloaded(self) -> Overloaded:
        """The error for a full budget."""
        return Overloaded(f"Too much {self.what}.", retry_after_s=RETRY_AFTER_S)


@dataclass(frozen=True)
class ByteBudgets:
    """The service's memory budgets."""

    unread: ByteBudget
    """Bodies that have arrived and are not being read yet."""
    bodies: ByteBudget
    """Bodies from authenticated clients."""
    unauthenticated: ByteBudget
    """Bodies from clients whose key is in the body."""
    responses: ByteBudget
    """Responses that clients have not read yet."""

    @classmethod
    def for_size(cls, max_bytes: int) -> ByteBudgets:
        """For bodies and responses of up to `max_bytes`."""
        return cls(
            unread=ByteBudget(UNREAD_MULTIPLE * max_bytes),
            bodies=ByteBudget(BODIES_MULTIPLE * max_bytes),
            unauthenticated=ByteBudget(UNAUTHENTICATED_MULTIPLE * max_bytes),
            responses=ByteBudget(RESPONSES_MULTIPLE * max_bytes, "response data is still unread by clients"),
        )

    def all(self) -> tuple[ByteBudget, ...]:
        return self.unread, self.bodies, self.unauthenticated, self.responses


class Reservation:
    """One request's share of a budget."""

    __slots__ = "budget", "size"

    def __init__(self, budget: ByteBudget) -> None:
        self.budget = budget
        self.size = 0

    def grow(self, size: int) -> None:
        """Reserves `size` bytes more as they arrive, so that a false Content-Length reserves nothing.

        Raises Overloaded.
        """
        if not self.budget.fits(size, self.size):
            raise self.budget.overloaded()
        self.budget.add(size)
        self.size += size

    def release(self) -> None:
        """Returns all bytes."""
        self.budget.used -= self.size
        self.size = 0

    def resize(self, size: int) -> None:
        """Sets the share to `size` bytes, even if the budget is exceeded."""
        self.budget.add(size - self.size)
        self.size = size
