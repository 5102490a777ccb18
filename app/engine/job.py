"""A sequence on its way through the engine, and the futures that wait for it."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable
from time import monotonic

from app.engine.sequence import Decoded, Sequence
from app.engine.waiting_queue import cost
from app.errors import ServiceError

TURN_JOBS = 8
"""Jobs of a request that go one after the other before it is the turn of its client's next one: requests of a paragraph
end in the order in which they came, instead of all of them at the end."""


class ClientJobs:
    """What a client has in the engine: the holder of a key, or everyone at an address.

    `running`: the number of its jobs that workers hold. `waiting`: the number of those that wait; `waiting_tokens`:
    their total cost; `requests`: the number of requests that they belong to.
    """

    __slots__ = "name", "requests", "running", "waiting", "waiting_tokens"

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = self.waiting = self.waiting_tokens = self.requests = 0


class JobGroup:
    """The waiting jobs of one request that use one model. Groups take turns, `TURN_JOBS` each.

    `continues`: the request has been accepted before. `running`: the number of its jobs that workers hold; `started`:
    the number given to workers so far.
    """

    __slots__ = "client", "continues", "model", "running", "started", "waiting"

    def __init__(self, model: str, client: ClientJobs, continues: bool = False) -> None:
        self.model, self.client, self.continues = model, client, continues
        self.waiting: deque[Job] = deque()
        self.running = 0
        self.started = 0


class Job:
    """A sequence to decode, shared by all requests that wait for it; dropped when the last of them leaves.

    `deadline`: the latest of theirs, in seconds on the clock of `monotonic`. The scheduler does not start it later.
    """

    __slots__ = (
        "arrived", "cost", "deadline", "deaths", "futures", "group", "lane", "number", "on_drop", "position",
        "sequence", "waited", "worker",
    )  # fmt: skip

    def __init__(self, sequence: Sequence, deadline: float) -> None:
        self.sequence, self.deadline = sequence, deadline
        # Targets are about as long as sources. Of one that is given, each token takes a step.
        self.cost = cost(max(len(sequence.source), len(sequence.forced or ())), sequence.beam_size)
        self.arrived = monotonic()
        self.futures: list[Future[Decoded]] = []
        self.on_drop: Callable[[Job], object] | None = None
        """Called when the last waiting request has left."""
        self.deaths = 0
        """The number of workers that died with this job."""

        # Set by the scheduler.
        self.group: JobGroup
        self.position: int
        """The number of jobs in its group that came before it."""
        self.number = -1
        """Identifies the assignment to a worker: a new number each time, -1 while the job waits."""
        self.worker: int
        self.lane: int
        """Which lane of the worker's queue it joins, by what its client and its group had in workers; see
        `app.engine.waiting_queue`."""
        self.waited: float
        """Seconds from its arrival until it was given to the worker."""

    def starts_within(self, turns: int, client: str) -> bool:
        """Whether it has started, or its group, which is the client's, has fewer jobs before it or is at its turn.

        `turns`: the number of jobs that a new request of the client has; 0 for one that has begun.
        """
        if self.number >= 0 or not turns or self.group.client.name != client:
            return self.number >= 0
        in_turn = TURN_JOBS - self.group.started % TURN_JOBS
        return self.position - self.group.started < max(turns, in_turn)

    def new_future(self) -> Future[Decoded]:
        """A future for one more waiting request; its exception is a ServiceError. Cancelling it means to leave."""
        future: Future[Decoded] = get_running_loop().create_future()
        future.add_done_callback(self._on_future_done)
        self.futures.append(future)
        return future

    def finish(self, decoded: Decoded) -> None:
        futures, self.futures = self.futures, []
        for future in futures:
            if not future.done():  # otherwise it was cancelled
                future.set_result(decoded)

    def fail(self, error: ServiceError) -> None:
        futures, self.futures = self.futures, []
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # asyncio would log an exception that is never retrieved

    def drop(self) -> None:
        """Called when no request waits any more."""
        self.futures = []
        if self.on_drop:
            self.on_drop(self)

    def _on_future_done(self, future: Future[Decoded]) -> None:
        if self.futures and future.cancelled() and all(one.done() for one in self.futures):
            self.drop()
