"""Chooses which sequence is decoded next, and by which worker: one queue, bounded, and fair between requests."""

from __future__ import annotations

import itertools
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from app.engine.job import Job, JobGroup
from app.engine.loaded_models import LoadedModels
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText
from app.runtime.throughput import DecodeRate

MAX_DEATHS = 3
"""A sequence present at this many deaths of workers counts as their cause, and fails."""


@dataclass(frozen=True)
class WorkerCapacity:
    """Limits on the sequences of one model that a worker holds, including those that wait there for a row.

    `priority_sequences`: places on top of `sequences`, for requests that have no sequence in a worker yet. `tokens`:
    total cost; a worker that holds none of the model takes one sequence of any cost.
    """

    sequences: int
    priority_sequences: int
    tokens: int


class _Worker:
    """A worker's capacity, and the jobs that it holds, by model."""

    def __init__(self, capacity: WorkerCapacity) -> None:
        self.capacity = capacity
        self.jobs: dict[str, set[Job]] = {}
        self.tokens: Counter[str] = Counter()
        self.total_tokens = 0
        self.last_chance_models: set[str] = set()

    def fits(self, job: Job, priority: bool) -> bool:
        model = job.group.model
        held = len(self.jobs.get(model, ()))
        if not held:
            return True
        limit = self.capacity.sequences + (self.capacity.priority_sequences if priority else 0)
        return held < limit and self.tokens[model] + job.cost <= self.capacity.tokens

    def add(self, job: Job) -> None:
        model = job.group.model
        self.jobs.setdefault(model, set()).add(job)
        self.tokens[model] += job.cost
        self.total_tokens += job.cost

    def remove(self, job: Job) -> None:
        model = job.group.model
        self.jobs[model].remove(job)
        self.tokens[model] -= job.cost
        self.total_tokens -= job.cost


class Scheduler:
    """All jobs, waiting or in a worker. `queue_tokens` limits the total cost of the waiting ones.

    Refuses a request that would start later than `max_wait_s` from now, or end after its deadline.
    """

    def __init__(self, queue_tokens: int, max_wait_s: float = math.inf, models: LoadedModels | None = None) -> None:
        self.queue_tokens, self.max_wait_s = queue_tokens, max_wait_s
        self.models = models or LoadedModels()
        self.waiting = 0
        """The number of waiting jobs; `waiting_tokens` is their total cost."""
        self.waiting_tokens = 0
        self.decode_rate = DecodeRate()
        self._workers: dict[int, _Worker] = {}
        self._groups: dict[str, OrderedDict[JobGroup, None]] = {}
        self._lost: dict[str, deque[Job]] = {}  # by dead workers: they go before all that wait
        self._last_chance: dict[str, deque[Job]] = {}  # at the next death they count as its cause
        self._assigned: dict[int, Job] = {}
        self._numbers = itertools.count()

    @property
    def is_empty(self) -> bool:
        """Whether no job waits or is in a worker."""
        return not (self.waiting or self._assigned)

    # ---- Requests

    def add(self, jobs: Sequence[Job]) -> None:
        """Queues the jobs of one request, which share a deadline, in this order.

        Raises TooMuchText if they exceed the queue, Overloaded if there is no space or time now; then queues none.
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
        self._count_waiting(len(jobs), tokens)

    def cancel(self, job: Job) -> bool:
        """Removes a job. Returns whether a worker holds it, which then has to cancel it."""
        if job.number >= 0:
            self._unassign(job)
            return True
        if job.deaths == MAX_DEATHS - 1:
            self._last_chance[job.group.model].remove(job)
        elif job.deaths:
            self._lost[job.group.model].remove(job)
        else:
            job.group.waiting.remove(job)  # mostly the first one: the jobs of a request are cancelled in order
            if not job.group.waiting:
                del self._groups[job.group.model][job.group]
        self._count_waiting(-1, -job.cost)
        return False

    def check(self, tokens: int = 1) -> None:
        """Raises Overloaded if a request of cost `tokens` would not fit in the queue, or would start too late.

        The cost is enough to know: requests take turns, so a sequence waits for one of each other request.
        """
        excess = self.waiting_tokens + tokens - self.queue_tokens
        if excess > 0:
            raise _overloaded("The queue is full.", self._estimate_s(excess))
        if not self.waiting:
            return
        late = self._estimate_s(self.waiting_tokens / self.waiting * self._waiting_requests) - self.max_wait_s
        if late > 0:
            raise _overloaded("The queue is too long.", late)

    def _check_deadline(self, deadline: float, tokens: int) -> None:
        """Raises Overloaded if a request of cost `tokens` would end too late.

        Each other request delays it by at most its own cost.
        """
        work = min(self.waiting_tokens, tokens * self._waiting_requests) + tokens
        late = self._estimate_s(work) - (deadline - monotonic())
        if late > 0:
            raise _overloaded("The queue is too long for the deadline.", late)

    @property
    def _waiting_requests(self) -> int:
        """The number of requests with waiting jobs; one that lost several jobs with a worker may count for each."""
        return sum(len(queue) for queues in (self._groups, self._lost, self._last_chance) for queue in queues.values())

    # ---- Workers

    def add_worker(self, worker: int, capacity: WorkerCapacity) -> None:
        """Adds a worker that holds no jobs."""
        self._workers[worker] = _Worker(capacity)

    def remove_worker(self, worker: int) -> None:
        """Removes a dead worker. Requeues its jobs before all others, except those present at too many deaths."""
        if worker not in self._workers:
            return
        for jobs in self._workers.pop(worker).jobs.values():
            for job in sorted(jobs, key=lambda job: job.number, reverse=True):
                del self._assigned[job.number]
                job.number = -1
                job.group.running -= 1
                self._requeue(job)

    def assign(self) -> list[Job]:
        """Assigns waiting jobs to workers with capacity, one of each request in turn. Returns them, with new numbers.

        A job goes to the worker with the least work. A job whose deadline has passed fails instead.
        """
        now = monotonic()
        given: list[Job] = []
        before = -1
        # Again, as jobs that fail here may leave a model without work, which makes room for another.
        while self._workers and self.waiting not in (0, before):
            before = self.waiting
            for model in self.models.admitted(self._waiting_models(), self._is_in_workers):
                while job := self._next_last_chance(model, now) or self._next(model, now):
                    given.append(job)
        return given

    def _waiting_models(self) -> list[str]:
        """The models with waiting jobs."""
        queues = (self._groups, self._lost, self._last_chance)
        return list(dict.fromkeys(model for by_model in queues for model, queue in by_model.items() if queue))

    def _is_in_workers(self, model: str) -> bool:
        """Whether a worker holds jobs of `model`."""
        return any(worker.jobs.get(model) for worker in self._workers.values())

    def release(self, number: int) -> Job | None:
        """Takes the job of this number from its worker, for the caller to end. None if it was cancelled meanwhile."""
        job = self._assigned.get(number)
        if job:
            self._unassign(job)
        return job

    def is_busy(self, worker: int) -> bool:
        """Whether `worker`, which must have been added, holds jobs."""
        return any(self._workers[worker].jobs.values())

    def fail_waiting(self, error: ServiceError) -> None:
        """Fails all waiting jobs."""
        lost = itertools.chain(*self._lost.values(), *self._last_chance.values())
        waiting = [*lost, *self._take_waiting()]
        for queues in (self._groups, self._lost, self._last_chance):
            queues.clear()
        self._fail(waiting, error)

    def _take_waiting(self) -> Iterator[Job]:
        for groups in self._groups.values():
            for group in groups:
                yield from group.waiting
                group.waiting.clear()

    def _fail(self, jobs: Iterable[Job], error: ServiceError) -> None:
        """Fails jobs that are no longer in a queue."""
        for job in jobs:
            self._count_waiting(-1, -job.cost)
            job.fail(error)

    def _next(self, model: str, now: float) -> Job | None:
        lost, requests = self._lost.get(model), self._groups.get(model)
        while lost or requests:
            job = lost[0] if lost else next(iter(requests or ())).waiting[0]
            group, worker, priority = job.group, None, not job.group.running
            if job.deadline > now:
                worker = self._least_busy(job, priority)
                if worker is None:
                    return None
            if lost:
                lost.popleft()
            elif requests:
                group.waiting.popleft()
                group.started += 1
                if not group.waiting:
                    del requests[group]
                elif worker is not None:
                    requests.move_to_end(group)
            if worker is not None:
                return self._assign_to(worker, job, priority, now)
            self._fail([job], DeadlinePassed("Not started before the deadline."))
        return None

    def _next_last_chance(self, model: str, now: float) -> Job | None:
        """Assigns a job that was present at all deaths but one of the maximum: one at a time per worker and model."""
        last_chance = self._last_chance.get(model)
        if not last_chance:
            return None
        worker = self._least_busy(last_chance[0], priority=True, last_chance=True)
        if worker is None:
            return None
        self._workers[worker].last_chance_models.add(model)
        return self._assign_to(worker, last_chance.popleft(), True, now)

    def _least_busy(self, job: Job, priority: bool, last_chance: bool = False) -> int | None:
        best, least = None, math.inf
        for number, worker in self._workers.items():
            if (
                worker.total_tokens < least
                and worker.fits(job, priority)
                and not (last_chance and job.group.model in worker.last_chance_models)
            ):
                best, least = number, worker.total_tokens
        return best

    def _assign_to(self, worker: int, job: Job, priority: bool, now: float) -> Job:
        job.number, job.worker, job.priority, job.waited = next(self._numbers), worker, priority, now - job.arrived
        self._assigned[job.number] = job
        job.group.running += 1
        self._workers[worker].add(job)
        self._count_waiting(-1, -job.cost)
        return job

    def _unassign(self, job: Job) -> None:
        del self._assigned[job.number]
        job.group.running -= 1
        worker = self._workers[job.worker]
        worker.remove(job)
        if job.deaths == MAX_DEATHS - 1:
            worker.last_chance_models.discard(job.group.model)

    def _requeue(self, job: Job) -> None:
        job.deaths += 1
        if job.deaths >= MAX_DEATHS:
            job.fail(StepFailed(f"{MAX_DEATHS} workers died while they held this sentence."))
            return
        self._count_waiting(1, job.cost)
        if job.deaths == MAX_DEATHS - 1:
            self._last_chance.setdefault(job.group.model, deque()).append(job)
        else:
            self._lost.setdefault(job.group.model, deque()).appendleft(job)

    def _count_waiting(self, sequences: int, tokens: int) -> None:
        self.waiting += sequences
        self.waiting_tokens += tokens

    def _estimate_s(self, tokens: float) -> float:
        """The time in which all workers together decode `tokens`."""
        return self.decode_rate.seconds_for(tokens) / max(1, len(self._workers))


def _overloaded(why: str, wait_s: float) -> Overloaded:
    seconds = max(1, math.ceil(wait_s))
    return Overloaded(f"{why} Retry after {seconds} s.", retry_after_s=seconds)
