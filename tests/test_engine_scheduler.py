"""The queue: bounded, fair between requests, and it loses nothing, whatever happens to clients and workers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from time import monotonic

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.engine.scheduler import DEATHS, Job, Place, Room, Scheduler
from app.engine.waiting_queue import TILE, cost
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText, Unavailable
from app.runtime.throughput import Pace

ROOMY = Room(places=100, spare=0, tokens=100_000)


@dataclass(eq=False)
class Words:
    source: list[int]
    width: int = 1


def job(*lengths: int, model: str = "m", deadline: float = math.inf) -> Job[Words]:
    return Job(model, [Words([0] * length) for length in lengths], deadline)


def scheduler(queue_tokens: int = 100_000, max_wait_s: float = math.inf, **rooms: Room) -> Scheduler[Words]:
    """With workers 0, 1, ..."""
    made: Scheduler[Words] = Scheduler(queue_tokens, max_wait_s)
    for number, room in enumerate(rooms.values()):
        made.join(number, room)
    return made


def owners(places: list[Place[Words]]) -> list[Job[Words]]:
    return [place.job for place in places]


def finish(queue: Scheduler[Words], places: list[Place[Words]]) -> None:
    for place in places:
        if released := queue.release(place.number):
            queue.settle(released)


class Traffic(RuleBasedStateMachine):
    """Clients come, leave and are late, workers finish, fail, die and return, in any order."""

    rooms = st.builds(Room, st.integers(1, 4), st.integers(0, 2), st.integers(1, 8).map(lambda tiles: tiles * TILE))
    QUEUE_TOKENS = 60 * TILE

    def __init__(self) -> None:
        super().__init__()
        self.queue: Scheduler[Words] = Scheduler(self.QUEUE_TOKENS)
        self.jobs: list[Job[Words]] = []
        self.rooms_of: dict[int, Room] = {}
        self.held: list[Place[Words]] = []
        self.given_up: list[Place[Words]] = []
        self.came_back: Counter[Words] = Counter()
        self.done: Counter[Job[Words]] = Counter()
        self.deaths: Counter[Words] = Counter()
        self.overtaken: dict[Job[Words], Counter[Job[Words]]] = {}
        self.numbers: set[int] = set()

    @rule(
        lengths=st.lists(st.integers(0, 3 * TILE), min_size=1, max_size=6),
        model=st.sampled_from("ab"),
        late=st.sampled_from([False, False, False, True]),
    )
    def arrive(self, lengths: list[int], model: str, late: bool) -> None:
        request = job(*lengths, model=model, deadline=0 if late else math.inf)
        request.when_done = lambda: self.done.update([request])
        tokens = self.queue.waiting_tokens + sum(map(cost, request.sentences))
        try:
            self.queue.add(request)
        except Overloaded:
            assert tokens > self.QUEUE_TOKENS or late
            return
        assert tokens <= self.QUEUE_TOKENS
        self.jobs.append(request)
        self.overtaken[request] = Counter()

    @rule()
    def assign(self) -> None:
        for place in self.queue.assign():
            assert place.number not in self.numbers
            self.numbers.add(place.number)
            self.note_turn(place)
            self.check_room(place)
            self.held.append(place)

    def note_turn(self, place: Place[Words]) -> None:
        """Between two turns of a request, every other has one at the most; what is run again comes before."""
        self.overtaken[place.job] = Counter()
        if self.deaths[place.sentence]:
            return
        for other in self.jobs:
            if other.waiting and other.model == place.job.model and other is not place.job:
                self.overtaken[other][place.job] += 1
                assert self.overtaken[other][place.job] <= 1

    def check_room(self, place: Place[Words]) -> None:
        others = [other for other in self.held if (other.worker, other.job.model) == (place.worker, place.job.model)]
        room = self.rooms_of[place.worker]
        assert place.job.deadline > 0 or self.deaths[place.sentence]
        assert not place.job.cancelled
        assert place.ahead == (place.job not in owners(self.held)) or self.deaths[place.sentence]
        if others:
            assert len(others) < room.places + (room.spare if place.ahead else 0)
            assert sum(cost(other.sentence) for other in [*others, place]) <= room.tokens
        last_chance = [other for other in [*others, place] if self.deaths[other.sentence] == DEATHS - 1]
        assert len(last_chance) <= 1

    @precondition(lambda self: self.held)
    @rule(data=st.data(), failed=st.booleans())
    def come_back(self, data: st.DataObject, failed: bool) -> None:
        place = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        released = self.queue.release(place.number)
        assert released is place
        self.came_back[place.sentence] += 1
        self.queue.settle(place, StepFailed("failed") if failed else None)

    @precondition(lambda self: self.given_up)
    @rule()
    def come_back_too_late(self) -> None:
        assert self.queue.release(self.given_up.pop().number) is None

    @precondition(lambda self: any(job.unfinished and not job.cancelled for job in self.jobs))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        unfinished = [job for job in self.jobs if job.unfinished and not job.cancelled]
        request = data.draw(st.sampled_from(unfinished))
        gone = self.queue.cancel(request)
        assert set(gone) == {place for place in self.held if place.job is request}
        self.held = [place for place in self.held if place not in gone]
        self.given_up += gone

    @rule(worker=st.integers(0, 2), room=rooms)
    def join(self, worker: int, room: Room) -> None:
        if worker not in self.rooms_of:
            self.rooms_of[worker] = room
            self.queue.join(worker, room)

    @precondition(lambda self: self.rooms_of)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.rooms_of)))
        del self.rooms_of[worker]
        lost = [place for place in self.held if place.worker == worker]
        self.held = [place for place in self.held if place.worker != worker]
        for place in lost:
            self.deaths[place.sentence] += 1
        self.queue.leave(worker)
        for place in lost:
            fatal = self.deaths[place.sentence] == DEATHS
            assert (place.sentence in place.job.errors) == fatal
            self.came_back[place.sentence] += fatal

    @invariant()
    def what_waits_is_counted(self) -> None:
        alive = [job for job in self.jobs if not job.cancelled]
        waiting = [
            sentence
            for job in alive
            for sentence in job.sentences
            if not self.came_back[sentence] and sentence not in job.errors
        ]
        held = {place.sentence for place in self.held}
        waiting = [sentence for sentence in waiting if sentence not in held]
        assert (self.queue.waiting, self.queue.waiting_tokens) == (len(waiting), sum(map(cost, waiting)))

    def teardown(self) -> None:
        """All that is left is answered as soon as there is a worker."""
        if not self.rooms_of:
            self.join(0, Room(1, 0, TILE))
        for _ in range(1_000):
            self.assign()
            if not self.held:
                break
            place = self.held.pop(0)
            assert self.queue.release(place.number) is place
            self.came_back[place.sentence] += 1
            self.queue.settle(place)
        assert (self.queue.waiting, self.queue.waiting_tokens) == (0, 0)
        for request in self.jobs:
            assert self.done[request] == (not request.cancelled)
            for sentence in request.sentences:
                late = isinstance(request.errors.get(sentence), DeadlinePassed)
                assert self.came_back[sentence] <= 1
                assert request.cancelled or self.came_back[sentence] + late == 1
                assert not late or request.deadline == 0


Traffic.TestCase.settings = settings(max_examples=60, stateful_step_count=50)
test_nothing_is_lost_answered_twice_or_starved_whatever_happens = Traffic.TestCase


def test_requests_take_turns() -> None:
    queue = scheduler(one=Room(3, 0, 1_000))
    long, short = job(*[5] * 50), job(5)
    queue.add(long)
    queue.add(short)
    assert owners(queue.assign()) == [long, short, long]


def test_turns_go_on_where_they_stopped() -> None:
    queue = scheduler(one=Room(2, 0, 1_000))
    jobs = [job(5, 5, 5) for _ in range(3)]
    for request in jobs:
        queue.add(request)
    served = []
    for _ in range(3):
        places = queue.assign()
        served += owners(places)
        finish(queue, places)
    assert served == [*jobs, *jobs]


def test_a_single_sentence_behind_a_document_has_the_next_place_that_becomes_free() -> None:
    queue = scheduler(one=Room(8, 0, 10_000))
    document, single = job(*[5] * 10_000), job(5)
    queue.queue_tokens = 10**6
    queue.add(document)
    held = queue.assign()
    queue.add(single)
    assert queue.assign() == []
    finish(queue, held[:2])
    assert single in owners(queue.assign())


def test_spare_places_are_for_requests_that_have_none() -> None:
    queue = scheduler(one=Room(places=2, spare=1, tokens=1_000))
    document, single = job(5, 5, 5, 5), job(5)
    queue.add(document)
    assert owners(queue.assign()) == [document, document]
    queue.add(single)
    assert queue.assign() == []  # it is the document's turn, and that waits for a place of its own
    finish(queue, queue.cancel(document))
    assert [(place.job, place.ahead) for place in queue.assign()] == [(single, True)]


def test_a_worker_takes_as_much_again_as_it_gives_back() -> None:
    queue = scheduler(one=Room(places=10, spare=0, tokens=3 * TILE))
    queue.add(job(*[5] * 9))
    for _ in range(3):
        places = queue.assign()
        assert len(places) == 3
        finish(queue, places)


def test_the_worker_with_the_least_to_do_gets_the_next_sentence() -> None:
    queue = scheduler(one=ROOMY, two=ROOMY)
    queue.add(job(60, 5, 5, 5, 5))
    assert [place.worker for place in queue.assign()] == [0, 1, 1, 1, 1]


def test_models_have_places_of_their_own() -> None:
    queue = scheduler(one=Room(1, 0, TILE))
    jobs = [job(5, model="a"), job(5, model="b")]
    for request in jobs:
        queue.add(request)
    assert owners(queue.assign()) == jobs


def test_without_a_worker_everything_waits() -> None:
    queue = scheduler()
    queue.add(job(5))
    assert queue.assign() == []
    assert queue.waiting == 1
    queue.join(7, ROOMY)
    assert [place.worker for place in queue.assign()] == [7]


def test_what_a_dead_worker_had_is_run_again_before_what_waited() -> None:
    queue = scheduler(one=Room(2, 0, 1_000))
    first, second = job(5, 5), job(5)
    queue.add(first)
    lost = [place.sentence for place in queue.assign()]
    queue.add(second)
    queue.leave(0)
    queue.join(1, Room(3, 0, 1_000))
    again = queue.assign()
    assert [place.sentence for place in again[:1]] == lost[:1]
    assert {place.sentence for place in again} == {*lost, *second.sentences}


def test_a_sentence_that_kills_its_workers_fails_alone() -> None:
    """Two deaths may be chance; at the third the culprit is the only one of its kind in there."""
    queue = scheduler(one=ROOMY)
    request = job(*[5] * 20)
    poison = request.sentences[7]
    queue.add(request)
    places = queue.assign()
    deaths = 0
    while places:
        if any(place.sentence is poison for place in places):
            deaths += 1
            queue.leave(0)
            queue.join(0, ROOMY)
        else:
            finish(queue, places)
        places = queue.assign()
    assert deaths == DEATHS
    assert list(request.errors) == [poison]
    assert request.unfinished == 0


def test_what_is_late_is_not_begun() -> None:
    queue = scheduler()
    late = job(5, 5, deadline=monotonic() + 0.001)
    told: list[bool] = []
    late.when_done = lambda: told.append(True)
    queue.add(late)
    while monotonic() < late.deadline:
        pass
    queue.join(0, ROOMY)
    assert queue.assign() == []
    assert [type(error) for error in late.errors.values()] == [DeadlinePassed] * 2
    assert told == [True]


def test_giving_up_tells_everybody_who_waits() -> None:
    queue = scheduler(one=Room(1, 0, 1_000))
    jobs = [job(5, 5, model="a"), job(5, model="b"), job(5, 5, model="b")]
    for request in jobs:
        queue.add(request)
    held = queue.assign()
    error: ServiceError = Unavailable("no worker")
    queue.give_up(error)
    assert (queue.waiting, queue.waiting_tokens) == (0, 0)
    assert [len(request.errors) for request in jobs] == [1, 0, 2]
    finish(queue, held)
    assert [request.unfinished for request in jobs] == [0, 0, 0]


def test_what_does_not_fit_now_is_refused_and_leaves_no_trace() -> None:
    queue = scheduler(queue_tokens=3 * TILE)
    queue.add(job(5, 5))
    with pytest.raises(Overloaded):
        queue.add(job(5, 5))
    assert (queue.waiting, queue.waiting_tokens) == (2, 2 * TILE)
    queue.add(job(5))


def test_what_can_never_fit_is_too_much_text() -> None:
    with pytest.raises(TooMuchText):
        scheduler(queue_tokens=TILE).add(job(5, 5))


def paced(queue: Scheduler[Words], seconds_per_tile: float) -> Scheduler[Words]:
    """A worker takes so long for a sentence of one tile."""
    queue.pace.stepped(rows=10, seconds=10 * seconds_per_tile)
    queue.pace.finished(target_tokens=1, tokens=TILE)
    return queue


def test_retry_after_is_the_time_until_there_is_room() -> None:
    queue = paced(scheduler(queue_tokens=10 * TILE), seconds_per_tile=2.0)
    queue.add(job(*[5] * 10))
    with pytest.raises(Overloaded) as refusal:
        queue.add(job(5, 5, 5))
    assert refusal.value.retry_after_s == 6


def test_two_workers_are_twice_as_fast() -> None:
    queue = paced(scheduler(10 * TILE, one=ROOMY, two=ROOMY), seconds_per_tile=2.0)
    queue.waiting_tokens = 10 * TILE
    with pytest.raises(Overloaded) as refusal:
        queue.add(job(5, 5, 5))
    assert refusal.value.retry_after_s == 3


def test_a_request_whose_turn_would_come_too_late_is_refused_though_the_queue_is_not_full() -> None:
    queue = paced(scheduler(max_wait_s=5), seconds_per_tile=2.0)
    for _ in range(3):
        queue.add(job(5))
    with pytest.raises(Overloaded) as refusal:
        queue.add(job(5))
    assert refusal.value.retry_after_s == 1


def test_a_document_is_waited_for_one_turn_at_a_time() -> None:
    queue = paced(scheduler(max_wait_s=5), seconds_per_tile=2.0)
    queue.add(job(*[5] * 500))
    queue.add(job(5))


def test_what_would_not_be_done_by_its_deadline_is_refused() -> None:
    queue = paced(scheduler(), seconds_per_tile=10.0)
    queue.add(job(5))
    queue.add(job(5, deadline=monotonic() + 60))
    with pytest.raises(Overloaded):
        queue.add(job(5, deadline=monotonic() + 1))
    with pytest.raises(Overloaded):
        queue.add(job(*[5] * 7, deadline=monotonic() + 60))


def test_nothing_is_refused_while_nothing_waits() -> None:
    queue = paced(scheduler(max_wait_s=0.001), seconds_per_tile=1_000.0)
    queue.add(job(5, deadline=monotonic() + 0.001))


def test_pace_follows_what_is_measured_of_late() -> None:
    pace = Pace(half_life_s=1.0, half_life_tokens=100.0)
    assert pace.seconds(100) == 0
    pace.finished(target_tokens=20, tokens=10)
    assert pace.seconds(100) == 0
    pace.stepped(rows=1_000, seconds=1.0)
    assert pace.seconds(100) == pytest.approx(0.2)
    for _ in range(20):
        pace.stepped(rows=10, seconds=1.0)
        pace.finished(target_tokens=100, tokens=100)
    assert pace.seconds(100) == pytest.approx(10, rel=0.01)
