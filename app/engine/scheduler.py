"""Chooses which sequence is decoded next, and by which worker: one queue, bounded, and fair between clients and their
requests."""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic

from app.engine.job import TURN_JOBS, ClientJobs, Job, JobGroup
from app.engine.loaded_models import LoadedModels
from app.engine.turns import ClientTurns
from app.engine.waiting_queue import FURTHER, NEW_CLIENT, NEW_REQUEST
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText
from app.runtime.throughput import DecodeRate

MAX_DEATHS = 3
"""A sequence present at this many deaths of workers counts as their cause, and fails."""

OWN_SHARE = 0.75
"""Of the queue, for the requests of one client; the rest is for the first ones of others."""
MAX_RETRY_WAITS = 4
"""Refused clients are spread over at most so many times the longest wait."""


@dataclass(frozen=True)
class WorkerCapacity:
    """Limits on the sequences of one model that a worker holds, including those that wait there for a row.

    `priority_sequences`: places on top of `sequences`, for requests that have no sequence in a worker. `tokens`:
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

    def fits(self, job: Job, lane: int) -> bool:
        model = job.group.model
        held = len(self.jobs.get(model, ()))
        if not held:
            return True
        limit = self.capacity.sequences + (self.capacity.priority_sequences if lane < FURTHER else 0)
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

    Clients take turns, one job at a time, and so do the requests of each, `TURN_JOBS` at a time. Refuses a request that
    would start later than `max_wait_s` from now, or end after its deadline.
    """

    def __init__(self, queue_tokens: int, max_wait_s: float = math.inf, models: LoadedModels | None = None) -> None:
        self.queue_tokens, self.max_wait_s = queue_tokens, max_wait_s
        self.models = models or LoadedModels()
        self.waiting = 0
        """The number of waiting jobs; `waiting_tokens` is their total cost."""
        self.waiting_tokens = 0
        self.decode_rate = DecodeRate()
        self._workers: dict[int, _Worker] = {}
        self._clients: dict[str, ClientJobs] = {}
        """Those with jobs that wait or are in workers, by name."""
        self._waiting_clients = 0
        self._retry_from = 0.0
        """The time (monotonic) until which those refused keep the workers busy, if all come back."""
        self._turns: dict[str, ClientTurns] = {}
        self._lost: dict[str, deque[Job]] = {}  # by dead workers: they go before all that wait
        self._last_chance: dict[str, deque[Job]] = {}  # at the next death they count as its cause
        self._assigned: dict[int, Job] = {}
        self._numbers = itertools.count()

    @property
    def is_empty(self) -> bool:
        """Whether no job waits or is in a worker."""
        return not (self.waiting or self._assigned)

    # ---- Requests

    def add(self, jobs: Sequence[Job], client: str = "", continues: bool = False) -> None:
        """Queues the jobs of one request of the client, which share a deadline, in this order.

        One that `continues` has been accepted before: it alternates with the client's new requests, and is not refused.

        Raises TooMuchText if they exceed the queue, Overloaded if there is no space or time now; then queues none.
        """
        tokens = sum([job.cost for job in jobs])
        if not continues:
            self._check_request(jobs, client, tokens)
        owner = self._clients.get(client) or ClientJobs(client)
        made: dict[str, JobGroup] = {}
        for job in jobs:
            model = job.sequence.model
            group = made.get(model)
            if group is None:
                group = made[model] = JobGroup(model, owner, continues)
                self._turns.setdefault(model, ClientTurns()).add(group)
            job.group, job.position = group, len(group.waiting)
            group.waiting.append(job)
        self._count_waiting(owner, len(jobs), tokens)

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
                self._turns[job.group.model].remove(job.group)
        self._count_waiting(job.group.client, -1, -job.cost)
        return False

    def check(self, client: str = "", tokens: int = 1, waited_s: float = 0.0) -> None:
        """Raises Overloaded if a request of cost `tokens` would not fit in the queue, or would start too late.

        The client decides; the request need not be read. `waited_s`: how long it has waited before.
        """
        ours = self._clients.get(client)
        share = OWN_SHARE if ours and ours.waiting else 1.0
        excess = self.waiting_tokens + tokens - share * self.queue_tokens
        if excess > 0:
            raise self._overloaded("The queue is full.", self.decode_rate.seconds_for(excess))
        if not self.waiting:
            return
        mean = self.waiting_tokens / self.waiting
        wait_s = waited_s + self.decode_rate.seconds_for(self._work_before(client, mean))
        if wait_s > self.max_wait_s:
            # The estimate may be wrong: with half the wait, the client is not refused again.
            raise self._overloaded("The queue is too long.", wait_s - self.max_wait_s / 2)

    def _check_request(self, jobs: Sequence[Job], client: str, tokens: int) -> None:
        if tokens > self.queue_tokens:
            raise TooMuchText(f"The text is {tokens} tokens long; the queue holds {self.queue_tokens}.")
        self.check(client, tokens)
        if self.waiting and jobs:
            self._check_deadline(client, jobs[0].deadline, tokens)

    def _check_deadline(self, client: str, deadline: float, tokens: int) -> None:
        """Raises Overloaded if a request of cost `tokens` would end too late."""
        late = self.decode_rate.seconds_for(self._work_before(client, tokens) + tokens) - (deadline - monotonic())
        if late > 0:
            raise self._overloaded("The queue is too long for the deadline.", late)

    def _work_before(self, client: str, tokens: float) -> float:
        """The cost of what is decoded before a request of the client is through with `tokens`, at most.

        Each other request of the client delays it by at most as much, or a turn, and each other client by at most as
        much as all of these together.
        """
        ours = self._clients.get(client)
        own_tokens, requests, others = 0, 0, self._waiting_clients
        if ours and ours.waiting:
            own_tokens, requests, others = ours.waiting_tokens, ours.requests, others - 1
        turn = TURN_JOBS * self.waiting_tokens / max(1, self.waiting)
        own = min(own_tokens, max(tokens, turn) * requests)
        return own + min(self.waiting_tokens - own_tokens, (tokens + own) * others)

    def _overloaded(self, why: str, late_s: float) -> Overloaded:
        """The refusal of a request that could be accepted `late_s` from now if no other were refused.

        Each refusal asks its client to come back after those before it have been served, as if they cost what waiting
        requests do, but not much later: some never come back.
        """
        now = monotonic()
        latest = now + late_s + MAX_RETRY_WAITS * self.max_wait_s
        retry_at = min(max(now + late_s, self._retry_from), latest)
        requests = sum(turns.requests for turns in self._turns.values())
        self._retry_from = retry_at + self.decode_rate.seconds_for(self.waiting_tokens / max(1, requests))
        seconds = max(1, math.ceil(round(retry_at - now, 3)))
        return Overloaded(f"{why} Retry after {seconds} s.", retry_after_s=seconds)

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
                self._count_running(job, -1)
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
        queues = (self._turns, self._lost, self._last_chance)
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
        waiting = [*itertools.chain(*self._lost.values(), *self._last_chance.values())]
        for turns in self._turns.values():
            while group := turns.first():
                waiting.append(turns.take(group))
        for queues in (self._lost, self._last_chance):
            queues.clear()
        self._fail(waiting, error)

    def _fail(self, jobs: Iterable[Job], error: ServiceError) -> None:
        """Fails jobs that are no longer in a queue."""
        for job in jobs:
            self._count_waiting(job.group.client, -1, -job.cost)
            job.fail(error)

    def _next(self, model: str, now: float) -> Job | None:
        lost, turns = self._lost.get(model), self._turns.get(model)
        while lost or turns:
            group = turns.first() if turns and not lost else None
            job = group.waiting[0] if group else (lost or [])[0]
            worker, lane = None, _lane_of(job)
            if job.deadline > now:
                worker = self._least_busy(job, lane)
                if worker is None:
                    return None
            if turns and group:
                turns.take(group)
                if worker is not None:
                    turns.end_turn(group)
            elif lost:
                lost.popleft()
            if worker is not None:
                return self._assign_to(worker, job, lane, now)
            self._fail([job], DeadlinePassed("Not started before the deadline."))
        return None

    def _next_last_chance(self, model: str, now: float) -> Job | None:
        """Assigns a job that was present at all deaths but one of the maximum: one at a time per worker and model."""
        last_chance = self._last_chance.get(model)
        if not last_chance:
            return None
        worker = self._least_busy(last_chance[0], NEW_CLIENT, last_chance=True)
        if worker is None:
            return None
        self._workers[worker].last_chance_models.add(model)
        return self._assign_to(worker, last_chance.popleft(), NEW_CLIENT, now)

    def _least_busy(self, job: Job, lane: int, last_chance: bool = False) -> int | None:
        best, least = None, math.inf
        for number, worker in self._workers.items():
            if (
                worker.total_tokens < least
                and worker.fits(job, lane)
                and not (last_chance and job.group.model in worker.last_chance_models)
            ):
                best, least = number, worker.total_tokens
        return best

    def _assign_to(self, worker: int, job: Job, lane: int, now: float) -> Job:
        job.number, job.worker, job.lane, job.waited = next(self._numbers), worker, lane, now - job.arrived
        self._assigned[job.number] = job
        self._count_running(job, 1)
        self._workers[worker].add(job)
        self._count_waiting(job.group.client, -1, -job.cost)
        return job

    def _unassign(self, job: Job) -> None:
        del self._assigned[job.number]
        self._count_running(job, -1)
        worker = self._workers[job.worker]
        worker.remove(job)
        if job.deaths == MAX_DEATHS - 1:
            worker.last_chance_models.discard(job.group.model)

    def _requeue(self, job: Job) -> None:
        job.deaths += 1
        if job.deaths >= MAX_DEATHS:
            job.fail(StepFailed(f"{MAX_DEATHS} workers died while they held this sentence."))
            return
        self._count_waiting(job.group.client, 1, job.cost)
        if job.deaths == MAX_DEATHS - 1:
            self._last_chance.setdefault(job.group.model, deque()).append(job)
        else:
            self._lost.setdefault(job.group.model, deque()).appendleft(job)

    def _count_waiting(self, client: ClientJobs, jobs: int, tokens: int) -> None:
        had_none = not client.waiting
        client.waiting += jobs
        client.waiting_tokens += tokens
        self._waiting_clients += had_none - (not client.waiting)
        self.waiting += jobs
        self.waiting_tokens += tokens
        if not self.waiting:
            self.decode_rate.pause()
        self._keep_while_busy(client)

    def _count_running(self, job: Job, number: int) -> None:
        """`number`: 1 if a worker takes the job, -1 if it gives it back."""
        job.group.running += number
        job.group.client.running += number
        self._keep_while_busy(job.group.client)

    def _keep_while_busy(self, client: ClientJobs) -> None:
        if client.waiting or client.running:
            self._clients[client.name] = client
        else:
            self._clients.pop(client.name, None)


def _lane_of(job: Job) -> int:
    """The lane that the job joins if it is given to a worker now."""
    if not job.group.client.running:
        return NEW_CLIENT
    return FURTHER if job.group.running else NEW_REQUEST
