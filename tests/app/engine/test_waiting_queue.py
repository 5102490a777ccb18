"""Which sentences are encoded next: within the budget, each exactly once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from app.engine.waiting_queue import NEW_CLIENT, NEW_REQUEST, TILE, WaitingQueue, cost


@dataclass(eq=False)
class Words:
    source: list[int]
    beam_size: int = 1


def take(queue: WaitingQueue[Words], free: int, rows: int) -> list[Words]:
    """What joins before the next step of the batch."""
    taken = queue.take(free, rows)
    queue.count_steps(1)
    return taken


def words(length: int = 5) -> Words:
    return Words([0] * length)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2), st.booleans()), max_size=40),
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_every_remaining_sentence_is_taken_once_and_within_the_budget(
    given: list[tuple[int, int, bool]], rows: int, max_held_steps: int
) -> None:
    queue: WaitingQueue[Words] = WaitingQueue(encode_tokens=128, max_held_steps=max_held_steps)
    sentences = [(words(length), lane, removed) for length, lane, removed in given]
    for sentence, lane, _ in sentences:
        queue.add(sentence, lane)
    removed = [sentence for sentence, _, removed in sentences if removed]
    assert all(queue.remove(sentence) for sentence in removed)
    assert not any(queue.remove(sentence) for sentence in removed)
    taken: list[Words] = []
    while len(queue):
        turns = [take(queue, rows, 4 * rows) for _ in range(max_held_steps + 1)]
        assert any(turns)
        for turn in turns:
            assert len(turn) <= rows
            assert len(turn) <= 1 or len(turn) * max(cost(len(one.source), one.beam_size) for one in turn) <= 128
        taken += [sentence for turn in turns for sentence in turn]
    assert Counter(taken) == Counter(sentence for sentence, _, removed in sentences if not removed)


def test_lanes_take_turns() -> None:
    queue: WaitingQueue[Words] = WaitingQueue()
    first, second, of_request, of_client, of_other = (words() for _ in range(5))
    for sentence in (first, second):
        queue.add(sentence)
    queue.add(of_request, NEW_REQUEST)
    queue.add(of_client, NEW_CLIENT)
    queue.add(of_other, NEW_CLIENT)
    assert queue.take(5, 5) == [of_client, of_request, first, of_other, second]


def test_overtaken_sentence_is_taken_eventually() -> None:
    queue: WaitingQueue[Words] = WaitingQueue()
    patient = words()
    queue.add(patient)
    turns = 0
    while queue.remove(patient):
        queue.add(patient)
        queue.add(words(), NEW_CLIENT)
        queue.add(words(), NEW_CLIENT)
        if patient in queue.take(2, 2):
            break
        turns += 1
    assert turns <= 2


def test_nearly_full_batch_is_refilled_in_groups() -> None:
    queue: WaitingQueue[Words] = WaitingQueue(max_held_steps=2)
    for _ in range(8):
        queue.add(words())
    assert [len(take(queue, free=2, rows=16)) for _ in range(6)] == [0, 0, 2, 0, 2, 0]
    assert len(queue.take(free=4, rows=16)) == 4


def test_single_sentence_waits_a_few_turns_for_others_unless_the_batch_is_small() -> None:
    queue: WaitingQueue[Words] = WaitingQueue(max_held_steps=2)
    queue.add(words())
    assert [len(take(queue, free=11, rows=16)) for _ in range(3)] == [0, 0, 1]
    queue.add(words())
    assert len(queue.take(free=12, rows=16)) == 1


def test_sentence_over_the_budget_is_encoded_alone() -> None:
    queue: WaitingQueue[Words] = WaitingQueue(encode_tokens=32)
    queue.add(words(100))
    queue.add(words())
    assert [len(queue.take(8, 8)) for _ in range(2)] == [1, 1]


def test_sentence_costs_its_tokens_and_end_symbol_rounded_up_to_tiles() -> None:
    assert [cost(length, 1) for length in (0, TILE - 1, TILE)] == [TILE, TILE, 2 * TILE]
