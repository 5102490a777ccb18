"""A sequence on its way through the engine, and who waits for it."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable
from time import monotonic

from app.engine.sequence import Decoded, Sequence
from app.engine.waiting_queue import cost
from app.errors import ServiceError


class JobGroup:
    """The jobs of one request and one model that wait; requests take turns, a job each.

    `running`: how many of them workers have; `started`: how many they were given.
    """

    __slots__ = "model", "running", "started", "waiting"

    def __init__(self, model: str) -> None:
        self.model = model
        self.waiting: deque[Job] = deque()
        self.running = 0
        self.started = 0


class Job:
    """A sequence to decode, for as many as ask for it: it belongs to none of them, and ends when the last one leaves.

    `deadline`: on `monotonic`'s clock, seconds, of whoever waits the longest. The scheduler does not begin it later.
    """

    __slots__ = (
        "arrived", "cost", "deadline", "deaths", "futures", "group", "number", "on_drop", "position", "priority",
        "sequence", "waited", "worker",
    )  # fmt: skip

    def __init__(self, sequence: Sequence, deadline: float) -> None:
        self.sequence, self.deadline = sequence, deadline
        self.cost = cost(sequence)
        self.arrived = monotonic()
        self.futures: list[Future[Decoded]] = []
        self.on_drop: Callable[[Job], object] | None = None
        """Called when the last one who waited has left, if it is queued."""
        self.deaths = 0
        """Of workers that had it."""

        # The scheduler's.
        self.group: JobGroup
        self.position: int
        """How many jobs of its request came before it."""
        self.number = -1
        """Of its being given to a worker; a new one each time, and -1 while it waits."""
        self.worker: int
        self.priority: bool
        """Its request had no other job in a worker, so it need not wait there behind those that have."""
        self.waited: float
        """Seconds, before it was given to the worker."""

    @property
    def turns_left(self) -> int:
        """How many turns its request has at most before this job's; none once it has begun."""
        return max(0, self.position - self.group.started) if self.number < 0 else 0

    def new_future(self) -> Future[Decoded]:
        """The answer, for one more who waits; the future's exception is a ServiceError. Cancelling it is leaving."""
        future: Future[Decoded] = get_running_loop().create_future()
        future.add_done_callback(self._on_future_done)
        self.futures.append(future)
        return future

    def finish(self, decoded: Decoded) -> None:
        futures, self.futures = self.futures, []
        for future in futures:
            if not future.done():  # else whoever had it has left
                future.set_result(decoded)

    def fail(self, error: ServiceError) -> None:
        futures, self.futures = self.futures, []
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever leaves without a look at it is not to be complained of

    def drop(self) -> None:
        """Nobody waits for it any more."""
        self.futures = []
        if self.on_drop:
            self.on_drop(self)

    def _on_future_done(self, future: Future[Decoded]) -> None:
        if self.futures and future.cancelled() and all(one.done() for one in self.futures):
            self.drop()
