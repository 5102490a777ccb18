"""Which sequence is decoded next and by which worker: one queue, bounded, and fair between requests.

Sees a sequence's tokens and a worker's number; processes and messages are the engine's.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from app.engine.job import Job, JobGroup
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText
from app.runtime.throughput import DecodeRate

DEATHS = 3
"""A sequence that was in a worker at so many deaths is taken for their cause."""


@dataclass(frozen=True)
class WorkerCapacity:
    """Limits on the sequences of one model that a worker holds, those that wait there for a row included.

    `priority_sequences`: places on top of `sequences`, for requests that have no sequence in a worker yet. `tokens`:
    total cost; a worker that holds none of the model takes one sequence of any cost.
    """

    sequences: int
    priority_sequences: int
    tokens: int


class _Worker:
    """What the scheduler knows of a worker: its capacity, and by model what it holds."""

    def __init__(self, capacity: WorkerCapacity) -> None:
        self.capacity = capacity
        self.held: dict[str, set[Job]] = {}
        self.tokens: Counter[str] = Counter()
        self.total = 0
        self.doubted: set[str] = set()

    def fits(self, job: Job, priority: bool) -> bool:
        model = job.group.model
        held = len(self.held.get(model, ()))
        if not held:
            return True
        limit = self.capacity.sequences + (self.capacity.priority_sequences if priority else 0)
        return held < limit and self.tokens[model] + job.cost <= self.capacity.tokens

    def add(self, job: Job) -> None:
        model = job.group.model
        self.held.setdefault(model, set()).add(job)
        self.tokens[model] += job.cost
        self.total += job.cost

    def remove(self, job: Job) -> None:
        model = job.group.model
        self.held[model].remove(job)
        self.tokens[model] -= job.cost
        self.total -= job.cost


class Scheduler:
    """The sequences of every model, waiting or in a worker. `queue_tokens` bounds what the waiting ones cost.

    A request is refused if its turn would come later than `max_wait_s` from now, or its end after its deadline.
    """

    def __init__(self, queue_tokens: int, max_wait_s: float = math.inf) -> None:
        self.queue_tokens, self.max_wait_s = queue_tokens, max_wait_s
        self.waiting = 0
        """Sequences that no worker has; `waiting_tokens` is what they cost."""
        self.waiting_tokens = 0
        self.decode_rate = DecodeRate()
        self._workers: dict[int, _Worker] = {}
        self._groups: dict[str, OrderedDict[JobGroup, None]] = {}
        self._doubtful: dict[str, deque[Job]] = {}  # one death more, and they are taken for its cause
        self._held: dict[int, Job] = {}
        self._numbers = itertools.count()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits and no worker has anything."""
        return not (self.waiting or self._held)

    # ---- Requests

    def add(self, jobs: Sequence[Job]) -> None:
        """Queues the jobs of one request, with one deadline, in this order.

        Raises TooMuchText if they never can be, Overloaded if they cannot now or not in time: then none is.
        """
        tokens = sum([job.cost for job in jobs])
        if tokens > self.queue_tokens:
            raise TooMuchText(f"The text is {tokens} tokens long; the queue holds {self.queue_tokens}.")
        self.check(tokens)
        if self.waiting and jobs:
            self._check_deadline(jobs[0].deadline, tokens)
        made: dict[str, JobGroup] = {}
        for job in jobs:
            model = job.sequence.model
            group = made.get(model)
            if group is None:
                group = made[model] = JobGroup(model)
                self._groups.setdefault(model, OrderedDict())[group] = None
            job.group, job.position = group, len(group.waiting)
            group.waiting.append(job)
        self._count(len(jobs), tokens)

    def cancel(self, job: Job) -> bool:
        """Forgets a job, waiting or not: whether a worker has it, which must be told to give it up."""
        if job.number >= 0:
            self._vacate(job)
            return True
        if job.deaths == DEATHS - 1:
            self._doubtful[job.group.model].remove(job)
        else:
            job.group.waiting.remove(job)  # the first one mostly: those of a request leave in its order
            if not job.group.waiting:
                del self._groups[job.group.model][job.group]
        self._count(-1, -job.cost)
        return False

    def check(self, tokens: int = 1) -> None:
        """Raises Overloaded if what costs `tokens` would find the queue full, or its turn would come too late.

        Nothing else need be known of it: requests take turns, so one sequence waits for one of each other request.
        """
        excess = self.waiting_tokens + tokens - self.queue_tokens
        if excess > 0:
            raise _overloaded("The queue is full.", self._seconds(excess))
        if not self.waiting:
            return
        late = self._seconds(self.waiting_tokens / self.waiting * self._requests) - self.max_wait_s
        if late > 0:
            raise _overloaded("The queue is too long.", late)

    def _check_deadline(self, deadline: float, tokens: int) -> None:
        """Raises Overloaded if it comes first: a long request waits for as many of each other as it has itself."""
        work = min(self.waiting_tokens, tokens * self._requests) + tokens
        late = self._seconds(work) - (deadline - monotonic())
        if late > 0:
            raise _overloaded("The queue is too long for the deadline.", late)

    @property
    def _requests(self) -> int:
        """Of which sequences wait."""
        return sum(map(len, self._groups.values())) + sum(map(len, self._doubtful.values()))

    # ---- Workers

    def join(self, worker: int, capacity: WorkerCapacity) -> None:
        """A worker is there and holds nothing."""
        self._workers[worker] = _Worker(capacity)

    def leave(self, worker: int) -> None:
        """A worker is dead. Its jobs wait again, before the others, but for those that saw too many deaths."""
        if worker not in self._workers:
            return
        for held in self._workers.pop(worker).held.values():
            for job in sorted(held, key=lambda job: job.number, reverse=True):
                del self._held[job.number]
                job.number = -1
                job.group.running -= 1
                self._wait_again(job)

    def assign(self) -> list[Job]:
        """Gives waiting jobs to workers with room for them, one of each request in turn; each has a new number.

        A job goes to the worker with the least to do. One whose deadline has passed is not begun.
        """
        if not self.waiting:
            return []
        now = monotonic()
        given: list[Job] = []
        for model in list(self._groups) + list(self._doubtful):
            while job := self._next_doubtful(model, now) or self._next(model, now):
                given.append(job)
        return given

    def release(self, number: int) -> Job | None:
        """A worker is done with the job of this number, which must then be finished or fail. None if that was given
        up meanwhile."""
        job = self._held.get(number)
        if job:
            self._vacate(job)
        return job

    def holds(self, worker: int) -> bool:
        """Whether jobs are in `worker`, which is there."""
        return any(self._workers[worker].held.values())

    def give_up(self, error: ServiceError) -> None:
        """Everything that waits fails."""
        waiting = [*self._waiting(), *itertools.chain.from_iterable(self._doubtful.values())]
        self._groups.clear()
        self._doubtful.clear()
        self._fail(waiting, error)

    def _waiting(self) -> Iterator[Job]:
        for groups in self._groups.values():
            for group in groups:
                yield from group.waiting
                group.waiting.clear()

    def _fail(self, jobs: Iterable[Job], error: ServiceError) -> None:
        """Those are in no queue any more."""
        for job in jobs:
            self._count(-1, -job.cost)
            job.fail(error)

    def _next(self, model: str, now: float) -> Job | None:
        requests = self._groups.get(model)
        while requests:
            group = next(iter(requests))
            job = group.waiting[0]
            priority = not group.running
            worker = None
            if job.deadline > now:
                worker = self._least_busy(job, priority)
                if worker is None:
                    return None
            group.waiting.popleft()
            group.started += 1
            if not group.waiting:
                del requests[group]
            if worker is None:
                self._fail([job], DeadlinePassed("Not begun by the deadline."))
                continue
            if group.waiting:
                requests.move_to_end(group)
            return self._occupy(worker, job, priority, now)
        return None

    def _next_doubtful(self, model: str, now: float) -> Job | None:
        """Jobs that were in a worker at all deaths but one too many: one at a time in each worker."""
        doubtful = self._doubtful.get(model)
        if not doubtful:
            return None
        worker = self._least_busy(doubtful[0], priority=True, doubted=True)
        if worker is None:
            return None
        self._workers[worker].doubted.add(model)
        return self._occupy(worker, doubtful.popleft(), True, now)

    def _least_busy(self, job: Job, priority: bool, doubted: bool = False) -> int | None:
        best, least = None, math.inf
        for number, worker in self._workers.items():
            if (
                worker.total < least
                and worker.fits(job, priority)
                and not (doubted and job.group.model in worker.doubted)
            ):
                best, least = number, worker.total
        return best

    def _occupy(self, worker: int, job: Job, priority: bool, now: float) -> Job:
        job.number, job.worker, job.priority, job.waited = next(self._numbers), worker, priority, now - job.arrived
        self._held[job.number] = job
        job.group.running += 1
        self._workers[worker].add(job)
        self._count(-1, -job.cost)
        return job

    def _vacate(self, job: Job) -> None:
        del self._held[job.number]
        job.group.running -= 1
        worker = self._workers[job.worker]
        worker.remove(job)
        if job.deaths == DEATHS - 1:
            worker.doubted.discard(job.group.model)

    def _wait_again(self, job: Job) -> None:
        job.deaths += 1
        if job.deaths >= DEATHS:
            job.fail(StepFailed(f"{DEATHS} workers died with this sentence in them."))
            return
        self._count(1, job.cost)
        if job.deaths == DEATHS - 1:
            self._doubtful.setdefault(job.group.model, deque()).append(job)
            return
        job.group.waiting.appendleft(job)
        job.group.started -= 1
        requests = self._groups.setdefault(job.group.model, OrderedDict())
        requests[job.group] = None
        requests.move_to_end(job.group, last=False)

    def _count(self, sequences: int, tokens: int) -> None:
        self.waiting += sequences
        self.waiting_tokens += tokens

    def _seconds(self, tokens: float) -> float:
        """How long all workers together take for `tokens`."""
        return self.decode_rate.seconds_for(tokens) / max(1, len(self._workers))


def _overloaded(why: str, wait_s: float) -> Overloaded:
    seconds = max(1, math.ceil(wait_s))
    return Overloaded(f"{why} Retry after {seconds} s.", retry_after_s=seconds)
