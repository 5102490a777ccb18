"""The queue: bounded, fair between clients and their requests, and it loses nothing whatever happens to clients and
workers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from time import monotonic

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis_profiles import draw_examples
from servers import WAIT_S

from app.engine.job import TURN_JOBS, Job
from app.engine.loaded_models import LoadedModels
from app.engine.scheduler import MAX_DEATHS, OWN_SHARE, Scheduler, WorkerCapacity
from app.engine.sequence import Decoded, Sequence
from app.engine.waiting_queue import FURTHER, NEW_CLIENT, NEW_REQUEST, TILE
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText, Unavailable
from app.runtime.throughput import DecodeRate

AMPLE = WorkerCapacity(sequences=100, priority_sequences=0, tokens=100_000)


DONE = Decoded((2,), (-1.0,), "stop", (0,), (1.0,))


class Noted(Job):
    """A job without a waiter that records how it ended, and that it ended once."""

    outcome: Decoded | ServiceError | None = None

    def finish(self, decoded: Decoded) -> None:
        assert self.outcome is None
        self.outcome = decoded

    def fail(self, error: ServiceError) -> None:
        assert self.outcome is None
        self.outcome = error


def request(*lengths: int, model: str = "m", deadline: float = math.inf) -> list[Noted]:
    return [Noted(Sequence(model, (0,) * length, 8), deadline) for length in lengths]


def errors(jobs: list[Noted]) -> list[ServiceError]:
    return [job.outcome for job in jobs if isinstance(job.outcome, ServiceError)]


def scheduler(queue_tokens: int = 100_000, max_wait_s: float = math.inf, **capacities: WorkerCapacity) -> Scheduler:
    """A scheduler with workers 0, 1, ..."""
    made = Scheduler(queue_tokens, max_wait_s)
    for number, capacity in enumerate(capacities.values()):
        made.add_worker(number, capacity)
    return made


def owners(given: list[Job], *requests: list[Noted]) -> list[int]:
    """The request of each job."""
    return [number for job in given for number, jobs in enumerate(requests) if job in jobs]


def finish(queue: Scheduler, jobs: Iterable[Job]) -> None:
    for job in jobs:
        if released := queue.release(job.number):
            released.finish(DONE)


class Traffic(RuleBasedStateMachine):
    """Clients arrive, leave and are late, and workers finish, fail, die and return, in any order."""

    capacities = st.builds(
        WorkerCapacity, st.integers(1, 4), st.integers(0, 2), st.integers(1, 8).map(lambda tiles: tiles * TILE)
    )
    QUEUE_TOKENS = 90 * TILE
    SIZES = {"a": 4, "b": 4, "c": 1}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.queue = Scheduler(self.QUEUE_TOKENS)
        self.requests: list[list[Noted]] = []
        self.request_of: dict[Job, int] = {}
        self.capacity_of: dict[int, WorkerCapacity] = {}
        self.held: list[Noted] = []
        self.gone: set[Job] = set()
        """Those that nobody waits for any more."""
        self.given_up: list[int] = []
        self.deaths: Counter[Job] = Counter()
        self.overtaken: dict[Hashable, Counter[Hashable]] = {}
        self.numbers: set[int] = set()

    @initialize(max_bytes=st.sampled_from([None, 4, 5, 8]))
    def limit_memory(self, max_bytes: int | None) -> None:
        self.queue.models = LoadedModels(max_bytes)
        self.queue.models.add_sizes(self.SIZES)

    @rule(
        lengths=st.lists(st.integers(0, 3 * TILE), min_size=1, max_size=TURN_JOBS + 4),
        model=st.sampled_from("abc"),
        late=st.sampled_from([False, False, False, True]),
        client=st.sampled_from("xyz"),
    )
    def arrive(self, lengths: list[int], model: str, late: bool, client: str) -> None:
        if not any(jobs[0].group.waiting for jobs in self.requests_of(client, model)):
            self.overtaken[client, model] = Counter()
        jobs = request(*lengths, model=model, deadline=0 if late else math.inf)
        tokens = self.queue.waiting_tokens + sum(job.cost for job in jobs)
        try:
            self.queue.add(jobs, client)
        except Overloaded:
            assert tokens > OWN_SHARE * self.QUEUE_TOKENS or late
            return
        assert tokens <= self.QUEUE_TOKENS
        number = len(self.requests)
        self.requests.append(jobs)
        self.request_of |= dict.fromkeys(jobs, number)
        self.overtaken[number] = Counter()

    @rule()
    def assign(self) -> None:
        for job in self.queue.assign():
            assert isinstance(job, Noted)
            assert job.number not in self.numbers
            self.numbers.add(job.number)
            self.note_turn(job)
            self.check_capacity(job)
            self.held.append(job)
        self.check_models()

    def check_models(self) -> None:
        """Models with jobs in a worker are loaded, and all loaded ones stay within the limit."""
        models = self.queue.models
        loaded = [model for model in self.SIZES if models.is_loaded(model)]
        in_use = {job.group.model for job in self.held}
        assert in_use <= set(loaded)
        assert not in_use & set(models.take_unloaded())
        assert models.max_bytes is None or sum(self.SIZES[model] for model in loaded) <= models.max_bytes

    def note_turn(self, job: Noted) -> None:
        """Between two jobs of a client, every other has at most one, and between two turns of a request each other one
        of the client at most one; repeated jobs come first."""
        client, model = job.group.client.name, job.group.model
        own, others = self.request_of[job], {name for name in "xyz" if name != client}
        if self.deaths[job]:
            return
        waiting = {name for name in others if any(jobs[0].group.waiting for jobs in self.requests_of(name, model))}
        self.note_overtaken((client, model), {(name, model) for name in waiting}, 1)
        same_client = [self.request_of[jobs[0]] for jobs in self.requests_of(client, model) if jobs[0].group.waiting]
        self.note_overtaken(own, {other for other in same_client if other != own}, TURN_JOBS)

    def note_overtaken(self, own: Hashable, waiting: Iterable[Hashable], limit: int) -> None:
        self.overtaken[own] = Counter()
        for other in waiting:
            self.overtaken[other][own] += 1
            assert self.overtaken[other][own] <= limit

    def requests_of(self, client: str, model: str) -> list[list[Noted]]:
        return [jobs for jobs in self.requests if (jobs[0].group.client.name, jobs[0].group.model) == (client, model)]

    def check_capacity(self, job: Noted) -> None:
        others = [other for other in self.held if (other.worker, other.group.model) == (job.worker, job.group.model)]
        capacity = self.capacity_of[job.worker]
        assert job.deadline > 0 or self.deaths[job]
        assert job not in self.gone
        is_further = any(self.request_of[other] == self.request_of[job] for other in self.held)
        is_known = any(other.group.client.name == job.group.client.name for other in self.held)
        assert job.lane == (FURTHER if is_further else NEW_REQUEST if is_known else NEW_CLIENT) or self.deaths[job]
        if others:
            assert len(others) < capacity.sequences + (capacity.priority_sequences if job.lane < FURTHER else 0)
            assert sum(other.cost for other in [*others, job]) <= capacity.tokens
        last_chance = [other for other in [*others, job] if self.deaths[other] == MAX_DEATHS - 1]
        assert len(last_chance) <= 1

    @precondition(lambda self: self.held)
    @rule(data=st.data(), failed=st.booleans())
    def come_back(self, data: st.DataObject, failed: bool) -> None:
        job = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        assert self.queue.release(job.number) is job
        if failed:
            job.fail(StepFailed("failed"))
        else:
            job.finish(DONE)

    @precondition(lambda self: self.given_up)
    @rule()
    def come_back_too_late(self) -> None:
        assert self.queue.release(self.given_up.pop()) is None

    def unfinished(self, number: int) -> list[Noted]:
        return [job for job in self.requests[number] if not (job.outcome or job in self.gone)]

    @precondition(lambda self: any(map(self.unfinished, range(len(self.requests)))))
    @rule(data=st.data(), alone=st.booleans())
    def leave(self, data: st.DataObject, alone: bool) -> None:
        """Cancels a request, or all waiters of one of its sequences."""
        number = data.draw(st.sampled_from([n for n in range(len(self.requests)) if self.unfinished(n)]))
        leaving = self.unfinished(number)
        for job in [data.draw(st.sampled_from(leaving))] if alone else leaving:
            assert self.queue.cancel(job) == (job in self.held)
            self.gone.add(job)
            if job in self.held:
                self.held.remove(job)
                self.given_up.append(job.number)

    @rule(worker=st.integers(0, 2), capacity=capacities)
    def join(self, worker: int, capacity: WorkerCapacity) -> None:
        if worker not in self.capacity_of:
            self.capacity_of[worker] = capacity
            self.queue.add_worker(worker, capacity)

    @precondition(lambda self: self.capacity_of)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.capacity_of)))
        del self.capacity_of[worker]
        lost = [job for job in self.held if job.worker == worker]
        self.held = [job for job in self.held if job.worker != worker]
        for job in lost:
            self.deaths[job] += 1
        self.queue.remove_worker(worker)
        for job in lost:
            assert isinstance(job.outcome, StepFailed) == (self.deaths[job] == MAX_DEATHS)

    @invariant()
    def what_waits_is_counted(self) -> None:
        unfinished = [job for number in range(len(self.requests)) for job in self.unfinished(number)]
        waiting = [job for job in unfinished if job not in self.held]
        assert (self.queue.waiting, self.queue.waiting_tokens) == (len(waiting), sum(job.cost for job in waiting))
        assert self.queue.is_empty == (not unfinished)

    @invariant()
    def nobody_waits_for_more_turns_than_are_told(self) -> None:
        for number in range(len(self.requests)):
            for job in self.unfinished(number):
                if not (job in self.held or self.deaths[job]):
                    before = job.group.waiting.index(job)
                    assert before < TURN_JOBS or not job.starts_within(before, job.group.client.name)
                    assert not job.starts_within(1_000, "another")
                elif job in self.held:
                    assert job.starts_within(0, "another")

    def teardown(self) -> None:
        """Everything left is answered once a worker is available."""
        if not self.capacity_of:
            self.join(0, WorkerCapacity(1, 0, TILE))
        for _ in range(1_000):
            self.assign()
            if not self.held:
                break
            job = self.held.pop(0)
            assert self.queue.release(job.number) is job
            job.finish(DONE)
        assert (self.queue.waiting, self.queue.waiting_tokens) == (0, 0)
        assert self.queue.is_empty
        for jobs in self.requests:
            for job in jobs:
                assert (job.outcome is None) == (job in self.gone)
                assert not isinstance(job.outcome, DeadlinePassed) or job.deadline == 0


Traffic.TestCase.settings = draw_examples(60, stateful_step_count=50)
test_nothing_is_lost_answered_twice_or_starved_whatever_happens = Traffic.TestCase


def test_requests_take_turns() -> None:
    queue = scheduler(one=WorkerCapacity(2 * TURN_JOBS, 0, 1_000))
    long, short = request(*[5] * 50), request(5)
    queue.add(long)
    queue.add(short)
    assert owners(queue.assign(), long, short) == [*[0] * TURN_JOBS, 1, *[0] * (TURN_JOBS - 1)]


def test_requests_of_a_turn_end_in_the_order_in_which_they_came() -> None:
    queue = scheduler(one=WorkerCapacity(6, 0, 1_000))
    requests = [request(5, 5, 5) for _ in range(2)]
    for jobs in requests:
        queue.add(jobs)
    assert owners(queue.assign(), *requests) == [0, 0, 0, 1, 1, 1]


def test_clients_take_turns_and_so_do_the_requests_of_each() -> None:
    queue = scheduler(one=WorkerCapacity(6, 0, 1_000))
    many = [request(5, 5) for _ in range(3)]
    for jobs in many:
        queue.add(jobs, "many")
    few = request(5)
    queue.add(few, "few")
    given = queue.assign()
    assert owners(given, *many, few) == [0, 3, 0, 1, 1, 2]
    assert [job.lane for job in given] == [NEW_CLIENT, NEW_CLIENT, FURTHER, NEW_REQUEST, FURTHER, NEW_REQUEST]


def test_what_continues_alternates_with_the_clients_new_requests_until_its_end() -> None:
    queue = scheduler(one=WorkerCapacity(50, 0, 1_000))
    new, first, second = request(*[5] * 12), request(*[5] * 10), request(5)
    queue.add(new)
    for jobs in (first, second):
        queue.add(jobs, continues=True)
    assert owners(queue.assign(), new, first, second) == [*[1, 0] * 10, 2, 0, 0]


def test_what_continues_goes_before_the_clients_other_requests_and_is_not_refused() -> None:
    queue = scheduler(queue_tokens=4 * TILE, one=WorkerCapacity(3, 0, 1_000))
    waiting, more, other = request(5, 5), request(5), request(5, 5)
    queue.add(waiting, "one")
    queue.add(other, "two")
    with pytest.raises(Overloaded):
        queue.add(request(5), "one")
    queue.add(more, "one", continues=True)
    assert owners(queue.assign(), more, other, waiting) == [0, 1, 2]


def test_turn_of_a_client_is_not_spent_on_what_is_too_late() -> None:
    queue = scheduler(one=WorkerCapacity(2, 0, 1_000))
    late, alive, other = request(5, 5, deadline=monotonic() - 1), request(5), request(5, 5)
    for jobs in (late, alive):
        queue.add(jobs, "one")
    queue.add(other, "two")
    assert owners(queue.assign(), late, alive, other) == [1, 2]


def test_turns_continue_where_they_stopped() -> None:
    queue = scheduler(one=WorkerCapacity(2, 0, 1_000))
    requests = [request(5, 5, 5) for _ in range(3)]
    for number, jobs in enumerate(requests):
        queue.add(jobs, f"{number}")
    served = []
    for _ in range(3):
        given = queue.assign()
        served += owners(given, *requests)
        finish(queue, given)
    assert served == [0, 1, 2, 0, 1, 2]


def test_single_sentence_behind_a_document_waits_for_one_turn() -> None:
    queue = scheduler(one=WorkerCapacity(8, 0, 10_000))
    document, single = request(*[5] * 10_000), request(5)
    queue.queue_tokens = 10**6
    queue.add(document)
    held = queue.assign()
    queue.add(single)
    assert queue.assign() == []
    finish(queue, held)
    assert queue.assign() == document[8:16]
    finish(queue, document[8:10])
    assert queue.assign() == [single[0], document[16]]


def test_spare_slots_go_to_requests_that_have_none() -> None:
    queue = scheduler(one=WorkerCapacity(sequences=2, priority_sequences=1, tokens=1_000))
    document, single = request(5, 5, 5, 5), request(5)
    queue.add(document)
    assert queue.assign() == document[:2]
    queue.add(single)
    assert queue.assign() == []  # it is the document's turn, and that waits for a place of its own
    assert [queue.cancel(job) for job in document] == [True, True, False, False]
    assert queue.assign() == single
    assert single[0].lane == NEW_CLIENT


def test_worker_receives_as_much_work_as_it_returns() -> None:
    queue = scheduler(one=WorkerCapacity(sequences=10, priority_sequences=0, tokens=3 * TILE))
    queue.add(request(*[5] * 9))
    for _ in range(3):
        given = queue.assign()
        assert len(given) == 3
        finish(queue, given)


def test_least_loaded_worker_gets_the_next_sentence() -> None:
    queue = scheduler(one=AMPLE, two=AMPLE)
    queue.add(request(60, 5, 5, 5, 5))
    assert [job.worker for job in queue.assign()] == [0, 1, 1, 1, 1]


def test_models_have_separate_slots() -> None:
    queue = scheduler(one=WorkerCapacity(1, 0, TILE))
    requests = [request(5, model="a"), request(5, model="b")]
    for jobs in requests:
        queue.add(jobs)
    assert owners(queue.assign(), *requests) == [0, 1]


def test_request_for_several_models_takes_turns_for_each() -> None:
    queue = scheduler(one=WorkerCapacity(1, 0, TILE))
    jobs = [*request(5, 5, model="a"), *request(5, model="b")]
    queue.add(jobs)
    assert queue.assign() == [jobs[0], jobs[2]]
    assert [job.starts_within(1, "") for job in jobs] == [True, True, True]


def test_without_a_worker_everything_waits() -> None:
    queue = scheduler()
    queue.add(request(5))
    assert queue.assign() == []
    assert queue.waiting == 1
    queue.add_worker(7, AMPLE)
    assert [job.worker for job in queue.assign()] == [7]


def test_jobs_of_a_dead_worker_run_before_waiting_ones() -> None:
    queue = scheduler(one=WorkerCapacity(2, 0, 1_000))
    first, second = request(5, 5), request(5)
    queue.add(first)
    lost = queue.assign()
    queue.add(second)
    queue.remove_worker(0)
    queue.add_worker(1, WorkerCapacity(3, 0, 1_000))
    again = queue.assign()
    assert again[:1] == lost[:1]
    assert set(again) == {*lost, *second}


def test_cancelled_job_of_a_dead_worker_gives_its_client_no_second_turn() -> None:
    queue = scheduler(one=WorkerCapacity(1, 0, 1_000))
    first, second = request(5, 5), request(5)
    queue.add(first, "first")
    queue.add(second, "second")
    [lost] = queue.assign()
    queue.remove_worker(0)
    assert not queue.cancel(lost)
    queue.add_worker(1, WorkerCapacity(1, 0, 1_000))
    assert queue.assign() == second


def test_a_sentence_that_kills_its_workers_fails_alone() -> None:
    """Two deaths may be chance; at the third, this sentence is the only one of its kind in the batch."""
    queue = scheduler(one=AMPLE)
    jobs = request(*[5] * 20)
    poison = jobs[7]
    queue.add(jobs)
    given = queue.assign()
    deaths = 0
    while given:
        if poison in given:
            deaths += 1
            queue.remove_worker(0)
            queue.add_worker(0, AMPLE)
        else:
            finish(queue, given)
        given = queue.assign()
    assert deaths == MAX_DEATHS
    assert [job for job in jobs if isinstance(job.outcome, ServiceError)] == [poison]
    assert all(job.outcome for job in jobs)


def test_a_job_past_its_deadline_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = scheduler()
    late = request(5, 5, deadline=monotonic() + WAIT_S)
    queue.add(late)
    monkeypatch.setattr("app.engine.scheduler.monotonic", lambda: late[0].deadline)
    queue.add_worker(0, AMPLE)
    assert queue.assign() == []
    assert [type(error) for error in errors(late)] == [DeadlinePassed] * 2


def test_job_starts_after_its_requests_deadline_if_another_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = scheduler()
    late = request(5, 5, 5, deadline=monotonic() + WAIT_S)
    queue.add(late)
    late[1].deadline = math.inf
    monkeypatch.setattr("app.engine.scheduler.monotonic", lambda: late[0].deadline)
    queue.add_worker(0, AMPLE)
    assert queue.assign() == [late[1]]
    assert [type(job.outcome) for job in late] == [DeadlinePassed, type(None), DeadlinePassed]


def test_fail_waiting_fails_every_waiting_job() -> None:
    queue = scheduler(one=WorkerCapacity(1, 0, 1_000))
    requests = [request(5, 5, model="a"), request(5, model="b"), request(5, 5, model="b")]
    for jobs in requests:
        queue.add(jobs)
    held = queue.assign()
    queue.fail_waiting(Unavailable("no worker"))
    assert (queue.waiting, queue.waiting_tokens) == (0, 0)
    assert [len(errors(jobs)) for jobs in requests] == [1, 0, 2]
    finish(queue, held)
    assert all(job.outcome for jobs in requests for job in jobs)


def test_refused_request_leaves_no_trace() -> None:
    queue = scheduler(queue_tokens=3 * TILE)
    queue.add(request(5, 5))
    with pytest.raises(Overloaded):
        queue.add(request(5, 5))
    assert (queue.waiting, queue.waiting_tokens) == (2, 2 * TILE)
    queue.add(request(5), "another")


def test_request_larger_than_the_queue_is_too_much_text() -> None:
    with pytest.raises(TooMuchText):
        scheduler(queue_tokens=TILE).add(request(5, 5))


def paced(queue: Scheduler, seconds_per_tile: float) -> Scheduler:
    """A scheduler whose workers take this long for a sentence of one tile."""
    times = iter((0.0, 1.0))
    queue.decode_rate = DecodeRate(clock=lambda: next(times))
    for rows in (0, 1):
        queue.decode_rate.add_steps(rows, is_busy=True)
    queue.decode_rate.add_sequence(target_tokens=round(10 * seconds_per_tile), cost=10 * TILE)
    return queue


def test_retry_after_is_the_time_until_the_queue_has_room() -> None:
    queue = paced(scheduler(queue_tokens=10 * TILE), seconds_per_tile=2.0)
    queue.add(request(*[5] * 10))
    with pytest.raises(Overloaded) as refusal:
        queue.add(request(5, 5, 5), "another")
    assert refusal.value.retry_after_s == 6


def test_a_client_leaves_a_part_of_the_queue_to_others() -> None:
    queue = paced(scheduler(queue_tokens=8 * TILE), seconds_per_tile=2.0)
    queue.add(request(*[5] * 6), "many")
    with pytest.raises(Overloaded):
        queue.add(request(5), "many")
    queue.add(request(5, 5), "few")
    with pytest.raises(Overloaded):
        queue.add(request(5), "another")


def test_request_whose_turn_would_come_too_late_is_refused_even_if_the_queue_has_room() -> None:
    queue = paced(scheduler(max_wait_s=6), seconds_per_tile=2.0)
    for _ in range(4):
        queue.add(request(5))
    with pytest.raises(Overloaded) as refusal:
        queue.add(request(5))
    assert refusal.value.retry_after_s == 5  # then the wait will be half of what is allowed


def test_wait_behind_another_client_is_estimated_turn_by_turn() -> None:
    queue = paced(scheduler(max_wait_s=5), seconds_per_tile=2.0)
    for _ in range(3):
        queue.add(request(5), "many")
    with pytest.raises(Overloaded):
        queue.check("many")
    queue.check("few")
    queue.add(request(5), "few")
    queue.check("fewer")
    queue.add(request(5), "fewer")
    with pytest.raises(Overloaded):
        queue.check("last")


def test_those_refused_are_told_to_come_back_one_after_the_other() -> None:
    queue = paced(scheduler(max_wait_s=6), seconds_per_tile=2.0)
    for _ in range(4):
        queue.add(request(5))
    told = []
    for _ in range(5):
        with pytest.raises(Overloaded) as refusal:
            queue.add(request(5))
        told.append(refusal.value.retry_after_s)
    assert told == [5, 7, 9, 11, 13]


def test_wait_behind_a_document_is_estimated_turn_by_turn() -> None:
    queue = paced(scheduler(max_wait_s=5), seconds_per_tile=0.5)
    queue.add(request(*[5] * 500))
    queue.add(request(5))


def test_a_request_that_would_miss_its_deadline_is_refused() -> None:
    queue = paced(scheduler(), seconds_per_tile=10.0)
    queue.add(request(5))
    queue.add(request(5, deadline=monotonic() + 60))
    with pytest.raises(Overloaded):
        queue.add(request(5, deadline=monotonic() + 1))
    with pytest.raises(Overloaded):
        queue.add(request(*[5] * 7, deadline=monotonic() + 60))


def test_nothing_is_refused_while_nothing_waits() -> None:
    queue = paced(scheduler(max_wait_s=0.001), seconds_per_tile=1_000.0)
    queue.add(request(5, deadline=monotonic() + 0.001))


def test_throughput_follows_recent_measurements() -> None:
    now = 0.0
    decode_rate = DecodeRate(half_life_s=1.0, half_life_tokens=100.0, clock=lambda: now)
    decode_rate.add_steps(1_000, is_busy=True)  # nobody knows how long they took
    now += 1
    decode_rate.add_steps(1_000, is_busy=False)
    assert decode_rate.seconds_for(100) == 0
    decode_rate.add_sequence(target_tokens=20, cost=10)
    assert decode_rate.seconds_for(100) == pytest.approx(0.2)
    decode_rate.add_steps(100, is_busy=True)
    now += 60  # all have left; later one comes
    decode_rate.add_steps(100, is_busy=True)
    decode_rate.pause()
    now += 1
    decode_rate.add_steps(1, is_busy=False)
    assert decode_rate.seconds_for(100) == pytest.approx(0.2)
    now += 1_000  # idle
    decode_rate.add_steps(100, is_busy=True)
    assert decode_rate.seconds_for(100) == pytest.approx(0.2)
    for _ in range(20):
        now += 1
        decode_rate.add_steps(10, is_busy=True)
        decode_rate.add_sequence(target_tokens=100, cost=100)
    assert decode_rate.seconds_for(100) == pytest.approx(10, rel=0.01)
