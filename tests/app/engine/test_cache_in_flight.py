"""app/engine/cache.py: A sentence that several requests wait for is decoded once, and a client that leaves affects
no other waiter."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fakes import PLENTY, CacheRequest, ManualDecoder, counted, on_a_loop, passes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from shared_fixtures import Gate, serving

from app.engine.cache import RESULT_SIZE, CachingDecoder, ResultCache
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, Unavailable
from app.runtime.event_loop import MAX_SIZE
from app.runtime.metrics import Metrics
from app.translation.translator import Translator
from app.translation.types import Options

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


@on_a_loop
async def test_concurrent_equal_sentences_are_decoded_once() -> None:
    decoder, metrics = ManualDecoder(), Metrics()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, metrics))
    requests = [
        CacheRequest(cache, 1, 1, 2),
        CacheRequest(cache, 2, 1),
        CacheRequest(cache, 3, 1, 3),
        CacheRequest(cache, 1),
    ]
    await passes()
    assert decoder.sources == [[1, 2], [3]]
    decoder.end_all()
    await asyncio.gather(*(request.task for request in requests))
    for request in requests:
        request.check()
        assert not request.errors
    assert counted(metrics) == (0, 6, 3)


@on_a_loop
async def test_a_shared_sequence_is_cancelled_only_when_its_last_waiter_leaves() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    leaving = CacheRequest(cache, 1, 1, 2, 3, 4)
    await passes()
    staying, other = CacheRequest(cache, 1, 2, 9, 2), CacheRequest(cache, 2, 3)
    await passes()
    jobs = list(decoder.waiting)
    leaving.task.cancel()
    await passes()
    assert decoder.sources == [[1, 2, 3], [9]]
    assert [job for job in jobs if job in decoder.waiting] == decoder.waiting  # the same, and none begun again
    other.task.cancel()
    await passes()
    assert decoder.sources == [[1, 2], [9]]
    decoder.end_all()
    await staying.task
    staying.check()
    assert leaving.task.cancelled()
    assert not leaving.answers
    assert not cache.jobs


@on_a_loop
async def test_long_request_keeps_sentences_that_others_started_and_abandoned() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    leaving = CacheRequest(cache, 1, 2)
    await passes()
    document = CacheRequest(cache, *range(4 * MAX_SIZE // RESULT_SIZE))
    await asyncio.sleep(0)
    leaving.task.cancel()
    await passes(10)
    assert sorted(job.sequence.source[0] for job in decoder.waiting) == list(range(4 * MAX_SIZE // RESULT_SIZE))
    decoder.end_all()
    await document.task
    document.check()


@on_a_loop
async def test_shared_sequence_has_the_latest_deadline_of_its_waiters() -> None:
    """The deadline is that of the waiter with the most time, so that one request's deadline affects no other."""
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    late, staying, hurried = (
        CacheRequest(cache, 1, 1),
        CacheRequest(cache, 1, within_s=90),
        CacheRequest(cache, 1, within_s=30),
    )
    await passes()
    [job] = decoder.waiting
    assert job.deadline == staying.deadline
    late.task.cancel()
    await passes()
    decoder.end_all()
    await asyncio.gather(staying.task, hurried.task)
    staying.check()
    hurried.check()
    assert not (staying.errors or hurried.errors)


@pytest.mark.parametrize("error", [StepFailed("broken"), Unavailable("the workers have died")])
@on_a_loop
async def test_failed_sentence_fails_for_all_waiters_and_is_not_cached(error: ServiceError) -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    requests = [CacheRequest(cache, 1), CacheRequest(cache, 1, 2)]
    await passes()
    for job in decoder.waiting:
        decoder.end(job, error if job.sequence.source == (1,) else None)
    await asyncio.gather(*(request.task for request in requests))
    for request in requests:
        request.check()
        assert request.errors == [request.answers[0]] == [error]
    again = CacheRequest(cache, 1)
    await passes()
    decoder.end_all()
    await again.task
    assert not again.errors


@on_a_loop
async def test_a_remaining_waiter_needs_no_space_in_a_full_queue() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    leaving = CacheRequest(cache, 1, 2)
    await passes()
    staying, last = CacheRequest(cache, 1, 9), CacheRequest(cache, 1)
    await passes()
    leaving.task.cancel()
    decoder.refusal = Overloaded("full", retry_after_s=1)
    await passes(8)
    assert decoder.sources == [[1], [9]]
    decoder.end_all()
    await asyncio.gather(staying.task, last.task)
    for request in (staying, last):
        request.check()
        assert not request.errors


@on_a_loop
async def test_request_is_refused_as_without_the_cache() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    leader = CacheRequest(cache, 1)
    await passes()
    decoder.refusal = Overloaded("full")
    alone, both = CacheRequest(cache, 2, 2), CacheRequest(cache, 1, 3)
    await asyncio.wait([alone.task, both.task])
    assert alone.task.exception() is both.task.exception() is decoder.refusal
    decoder.refusal = None
    decoder.end_all()
    await leader.task
    leader.check()
    assert not both.answers
    assert not cache.jobs


@on_a_loop
async def test_waiter_that_left_gets_no_result() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    leader, leaving = CacheRequest(cache, 1), CacheRequest(cache, 1)
    await passes()
    leaving.task.cancel()
    decoder.end_all()  # before it knows
    await asyncio.wait([leader.task, leaving.task])
    leader.check()
    assert leaving.task.cancelled()
    together = [CacheRequest(cache, 2), CacheRequest(cache, 2)]
    await passes()
    for request in together:
        request.task.cancel()
    await passes()
    assert not decoder.requests
    assert not together[1].answers
    later = CacheRequest(cache, 2)
    await passes()
    decoder.end_all()
    await later.task
    later.check()


@on_a_loop
async def test_a_request_that_arrives_while_the_last_waiter_leaves_is_answered() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    leaving = CacheRequest(cache, 1)
    await passes()
    coming = CacheRequest(cache, 1)  # whose first turn is before it is known that the other has left
    leaving.task.cancel()
    await passes()
    assert decoder.sources == [[1]]
    decoder.end_all()
    await coming.task
    coming.check()


@on_a_loop
async def test_request_waits_no_longer_for_another_requests_sentence_than_for_its_own() -> None:
    decoder, metrics = ManualDecoder(), Metrics()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, metrics))
    decoder.busy = True
    document = CacheRequest(cache, *range(100))
    await passes(10)
    short, same, text = CacheRequest(cache, 50), CacheRequest(cache, *range(100)), CacheRequest(cache, 13, 14, 15)
    await passes(10)
    assert decoder.sources[1:] == [[50], [13, 14, 15]]
    decoder.requests[0][0].group.started += 2
    near, far = CacheRequest(cache, 7), CacheRequest(cache, 19)
    await passes()
    assert decoder.sources[3:] == [[19]]
    [job] = decoder.requests[1]
    decoder.end(job)
    await short.task
    short.check()
    decoder.end_all()  # what was decoded twice, too
    for request in (document, same, text, near, far):
        await request.task
        request.check()
    assert not cache.jobs
    other = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    alone = CacheRequest(other, *range(100))
    await passes(10)
    decoder.end_all()
    await alone.task
    assert cache.results.bytes == other.results.bytes


@draw_examples(150)
@given(
    st.lists(
        st.tuples(st.just("ask"), st.lists(st.integers(0, 4), max_size=5))
        | st.tuples(st.sampled_from(["end", "fail", "late", "leave"]), st.integers(0, 9))
        | st.tuples(st.sampled_from(["refuse", "accept", "busy", "pass", "settle down"]), st.none()),
        max_size=30,
    )
)
@on_a_loop
async def test_every_request_ends_whatever_happens(events: list[tuple[str, Any]]) -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(1_000, Metrics()))
    requests: list[CacheRequest] = []
    for event, detail in events:
        if event == "ask":
            requests.append(CacheRequest(cache, *detail))
        elif event == "leave" and requests:
            requests[detail % len(requests)].task.cancel()
        elif event in ("end", "fail", "late") and (waiting := decoder.waiting):
            error = {"end": None, "fail": StepFailed("broken"), "late": DeadlinePassed("late")}[event]
            decoder.end(waiting[detail % len(waiting)], error)
        elif event in ("refuse", "accept"):
            decoder.refusal = Overloaded("full") if event == "refuse" else None
        elif event == "busy":
            decoder.busy = True
        elif event == "pass":
            await asyncio.sleep(0)
        elif event == "settle down":
            await passes(10)
            assert decoder.busy or max(Counter(job.sequence for job in decoder.waiting).values(), default=1) == 1
    decoder.refusal = None
    while not all(request.task.done() for request in requests):
        await passes()
        decoder.end_all()
    await passes()  # a future that was cancelled last calls back in the next pass
    for request in requests:
        request.check()
    assert not cache.jobs
    assert not decoder.requests


def test_a_waiter_gets_its_result_even_if_the_first_client_leaves(bundle_folder: Path, gate: Gate) -> None:
    async def scenario() -> str | None:
        translator: Translator = service.state.deployments.current.translator
        leaving = asyncio.create_task(translator.translate(["Hello."], Options("en", "fr")))
        await asyncio.to_thread(gate.entered.wait)
        staying = asyncio.create_task(translator.translate(["Hello.", "The cat sleeps."], Options("en", "fr")))
        await passes()
        assert counted(service.state.metrics) == (0, 1, 2)
        leaving.cancel()
        await passes()
        gate.opened.set()
        return (await staying).items[0].text

    with serving(bundle_folder) as service, serving(bundle_folder, cache_bytes=0) as other:
        found = service.run(scenario())
        assert found == other.post("/translate", HELLO).json()["translations"][0]["text"]
