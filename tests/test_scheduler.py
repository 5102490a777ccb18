"""The queue: bounded, fair between requests, and it loses nothing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Overloaded, TooMuchText
from app.scheduler import TILE, Job, Scheduler, Throughput, cost


@dataclass(eq=False)
class Words:
    source: list[int]


def job(*lengths: int, model: str = "m", deadline: float = math.inf) -> Job[Words]:
    return Job(model, [Words([0] * length) for length in lengths], deadline)


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=6), max_size=8), st.integers(1, 9), st.data())
def test_every_sentence_is_taken_once_unless_cancelled(
    requests: list[list[int]], rows: int, data: st.DataObject
) -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=100_000, encode_tokens=128)
    jobs = [job(*lengths) for lengths in requests]
    for request in jobs:
        scheduler.add(request)
    cancelled = set(data.draw(st.lists(st.sampled_from(jobs)))) if jobs else set()
    for request in cancelled:
        scheduler.cancel(request)
    taken: list[Words] = []
    while scheduler.waiting:
        turn = [sentence for sentence, _ in scheduler.take("m", rows, rows)]
        assert 1 <= len(turn) <= rows
        assert len(turn) == 1 or len(turn) * max(map(cost, turn)) <= 128
        taken += turn
    assert scheduler.waiting_tokens == 0
    assert Counter(taken) == Counter(s for request in jobs if request not in cancelled for s in request.sentences)


def test_requests_take_turns() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=100_000)
    long, short = job(*[5] * 50), job(5)
    scheduler.add(long)
    scheduler.add(short)
    assert [owner for _, owner in scheduler.take("m", 3, 3)] == [long, short, long]


def test_turns_go_on_where_they_stopped() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=100_000)
    jobs = [job(5, 5, 5) for _ in range(3)]
    for request in jobs:
        scheduler.add(request)
    owners = [owner for _ in range(3) for _, owner in scheduler.take("m", 2, 2)]
    assert owners == [*jobs, *jobs]


def test_a_model_gets_its_own_sentences_only() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=1_000)
    scheduler.add(job(5, model="a"))
    assert scheduler.take("b", 8, 8) == []
    assert len(scheduler.take("a", 8, 8)) == 1


def test_nothing_joins_a_batch_that_is_nearly_full_while_more_wait_than_fit() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=100_000)
    scheduler.add(job(5, 5, 5))
    assert scheduler.take("m", 2, 16) == []
    assert len(scheduler.take("m", 3, 16)) == 3


def test_a_sentence_costs_its_tokens_and_its_end_symbol_in_whole_tiles() -> None:
    assert [cost(Words([0] * length)) for length in (0, TILE - 1, TILE)] == [TILE, TILE, 2 * TILE]


def test_what_does_not_fit_now_is_refused_and_leaves_no_trace() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=3 * TILE)
    scheduler.add(job(5, 5))
    with pytest.raises(Overloaded):
        scheduler.add(job(5, 5))
    assert (scheduler.waiting, scheduler.waiting_tokens) == (2, 2 * TILE)
    scheduler.add(job(5))


def test_what_can_never_fit_is_too_much_text() -> None:
    with pytest.raises(TooMuchText):
        Scheduler[Words](queue_tokens=TILE).add(job(5, 5))


def test_retry_after_is_the_time_until_there_is_room() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=10 * TILE)
    scheduler.throughput.note(tokens=TILE, seconds=2.0)
    scheduler.add(job(*[5] * 10))
    with pytest.raises(Overloaded) as refusal:
        scheduler.add(job(5, 5, 5))
    assert refusal.value.retry_after_s == 6


def test_what_cannot_begin_before_its_deadline_is_refused() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=1_000)
    scheduler.throughput.note(tokens=TILE, seconds=10.0)
    scheduler.add(job(5))
    scheduler.add(job(5, deadline=monotonic() + 60))
    with pytest.raises(Overloaded):
        scheduler.add(job(5, deadline=monotonic() + 1))


def test_nothing_is_refused_while_nothing_waits() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=1_000)
    scheduler.throughput.note(tokens=1, seconds=1_000.0)
    scheduler.add(job(5, deadline=monotonic() + 0.001))


def test_clearing_returns_every_job_and_empties_the_queue() -> None:
    scheduler: Scheduler[Words] = Scheduler(queue_tokens=1_000)
    jobs = [job(5, model="a"), job(5, model="b")]
    for request in jobs:
        scheduler.add(request)
    assert scheduler.clear() == jobs
    assert all(request.cancelled for request in jobs)
    assert (scheduler.waiting, scheduler.waiting_tokens) == (0, 0)


def test_throughput_follows_what_is_measured_of_late() -> None:
    throughput = Throughput(half_life_s=1.0)
    assert throughput.seconds(100) == 0
    throughput.note(tokens=1_000, seconds=1.0)
    assert throughput.seconds(100) == pytest.approx(0.1)
    for _ in range(20):
        throughput.note(tokens=10, seconds=1.0)
    assert throughput.seconds(100) == pytest.approx(10, rel=0.01)
