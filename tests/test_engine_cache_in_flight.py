"""A sentence that several wait for is decoded once, and nobody who waits is let down by whoever leaves."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Gate, serving
from fakes import PLENTY, Asked, Told, counted, on_a_loop, passes
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.cache import AT_ONCE, Answers, Cache
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText, Unavailable
from app.runtime.metrics import Metrics
from app.translation.translator import Translator
from app.translation.types import Options

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


@on_a_loop
async def test_the_same_sentence_is_decoded_once_for_all_who_wait() -> None:
    decoder, metrics = Told(), Metrics()
    cache = Cache(decoder, Answers(PLENTY, metrics))
    requests = [Asked(cache, 1, 1, 2), Asked(cache, 2, 1), Asked(cache, 3, 1, 3), Asked(cache, 1)]
    await passes()
    assert [[h.source for h in job.sentences] for job in decoder.jobs] == [[[1], [2]], [[3]]]
    for job, request in zip(decoder.jobs, (requests[0], requests[2]), strict=True):
        assert (job.model, job.deadline, job.arrived) == ("en-fr@1", request.job.deadline, request.job.arrived)
    decoder.end_all()
    await asyncio.gather(*(request.task for request in requests))
    for request in requests:
        request.check()
        assert not request.job.errors
    found = [h for request in requests for h in request.job.sentences]
    assert len({id(h.tokens) for h in found}) == len({id(h.aligned) for h in found}) == len(found)
    assert counted(metrics) == (0, 6, 3)


@on_a_loop
async def test_a_long_request_waits_for_what_others_began_and_inherits_it_at_once() -> None:
    """It is still being looked up when the others leave: all that it decodes is one job."""

    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    leaving = Asked(cache, 1, 2)
    await passes()
    document = Asked(cache, *range(4 * AT_ONCE))
    await asyncio.sleep(0)
    assert len(decoder.jobs) == 1
    leaving.task.cancel()
    await passes(10)
    (job,) = decoder.jobs
    assert sorted(h.source[0] for h in job.sentences) == list(range(4 * AT_ONCE))
    decoder.end_all()
    await document.task
    document.check()


@on_a_loop
async def test_who_waits_takes_over_when_a_request_leaves() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    leaving = Asked(cache, 1, 1, 2, 3)
    await passes()
    heir, other = Asked(cache, 1, 2, 9, 2), Asked(cache, 2, 3)
    await passes()
    leaving.task.cancel()
    await passes()
    assert [[h.source[0] for h in job.sentences] for job in decoder.jobs] == [[9], [1, 2], [3]]
    decoder.end_all()
    await asyncio.gather(heir.task, other.task)
    heir.check()
    other.check()
    assert leaving.task.cancelled()
    assert not leaving.settled


@pytest.mark.parametrize("error", [DeadlinePassed("late"), Overloaded("full"), TooMuchText("long")])
@on_a_loop
async def test_who_waits_takes_over_what_befell_another_alone(error: ServiceError) -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    late = Asked(cache, 1, 1)
    await passes()
    heir = Asked(cache, 1)
    await passes()
    decoder.end_all(error)
    await late.task
    await passes()
    assert list(late.job.errors.values()) == [error, error]
    decoder.end_all()
    await heir.task
    late.check()
    heir.check()
    assert not heir.job.errors


@pytest.mark.parametrize("error", [StepFailed("broken"), Unavailable("the workers have died")])
@on_a_loop
async def test_a_sentence_that_fails_fails_for_all_who_wait_and_is_not_kept(error: ServiceError) -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    requests = [Asked(cache, 1), Asked(cache, 1, 2)]
    await passes()
    for job, hypothesis in decoder.waiting:
        decoder.end(job, hypothesis, error if hypothesis.source == [1] else None)
    await asyncio.gather(*(request.task for request in requests))
    for request in requests:
        request.check()
        assert request.job.errors == {request.job.sentences[0]: error}
    again = Asked(cache, 1)
    await passes()
    decoder.end_all()
    await again.task
    assert not again.job.errors


@on_a_loop
async def test_a_take_over_that_is_refused_is_an_error_of_its_sentences_alone() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    leaving = Asked(cache, 1, 2)
    await passes()
    heir, last = Asked(cache, 1, 9), Asked(cache, 1)
    await passes()
    leaving.task.cancel()
    decoder.refusal = Overloaded("full", retry_after_s=1)
    await passes(8)
    assert [type(error) for error in heir.job.errors.values()] == [Overloaded]
    assert not heir.task.done()
    assert isinstance(last.job.errors[last.job.sentences[0]], Overloaded)  # by itself: it was asked for again
    decoder.end_all()
    await asyncio.gather(heir.task, last.task)
    heir.check()
    last.check()


@on_a_loop
async def test_a_request_that_is_refused_is_so_as_without_the_cache() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    leader = Asked(cache, 1)
    await passes()
    decoder.refusal = Overloaded("full")
    alone, both = Asked(cache, 2, 2), Asked(cache, 1, 3)
    await asyncio.wait([alone.task, both.task])
    assert alone.task.exception() is both.task.exception() is decoder.refusal
    decoder.refusal = None
    decoder.end_all()
    await leader.task
    leader.check()
    assert not both.settled


@on_a_loop
async def test_who_leaves_while_waiting_is_not_told_of_again() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    leader, leaving = Asked(cache, 1), Asked(cache, 1)
    await passes()
    leaving.task.cancel()
    decoder.end_all()  # before it knows
    await asyncio.wait([leader.task, leaving.task])
    leader.check()
    assert leaving.task.cancelled()
    together = [Asked(cache, 2), Asked(cache, 2)]
    await passes()
    for request in together:
        request.task.cancel()
    await passes()
    assert not decoder.jobs
    assert not together[1].settled
    later = Asked(cache, 2)
    await passes()
    decoder.end_all()
    await later.task
    later.check()


@on_a_loop
async def test_an_heir_that_leaves_inherits_no_more_and_passes_on_what_it_has() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    first, second = Asked(cache, 1), Asked(cache, 2)
    await passes()
    heir, last = Asked(cache, 1, 2), Asked(cache, 1, 2)
    await passes()
    first.task.cancel()
    await passes()
    heir.task.cancel()
    second.task.cancel()
    await asyncio.sleep(0)
    decoder.end_all()  # for those that have left: nobody hears of it
    await passes()
    assert not heir.settled
    assert not last.settled
    assert [[h.source[0] for h in job.sentences] for job in decoder.jobs] == [[1, 2]]
    decoder.end_all()
    await last.task
    last.check()


@on_a_loop
async def test_a_request_waits_for_no_more_turns_of_another_than_it_needs_itself() -> None:
    decoder, metrics = Told(), Metrics()
    cache = Cache(decoder, Answers(PLENTY, metrics))
    decoder.busy = True
    document = Asked(cache, *range(100))
    await passes(10)
    (queued,) = decoder.jobs
    short, same, text = Asked(cache, 50), Asked(cache, *range(100)), Asked(cache, 3, 4, 5)
    await passes(10)
    assert [[h.source[0] for h in job.sentences] for job in decoder.jobs[1:]] == [[50], [3, 4, 5]]
    queued.waiting.popleft()
    queued.waiting.popleft()
    near, far = Asked(cache, 2), Asked(cache, 9)
    await passes()
    assert [[h.source[0] for h in job.sentences] for job in decoder.jobs[3:]] == [[9]]
    job, hypothesis = decoder.waiting[100]
    assert job is decoder.jobs[1]
    decoder.end(job, hypothesis)
    await short.task
    short.check()
    decoder.end_all()  # what was decoded twice, too
    for request in (document, same, text, near, far):
        await request.task
        request.check()
    other = Cache(decoder, Answers(PLENTY, Metrics()))
    alone = Asked(other, *range(100))
    await passes(10)
    decoder.end_all()
    await alone.task
    assert cache.answers.bytes == other.answers.bytes


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.just("ask"), st.lists(st.integers(0, 4), max_size=5))
        | st.tuples(st.sampled_from(["end", "fail", "late", "leave"]), st.integers(0, 9))
        | st.tuples(st.sampled_from(["refuse", "accept", "busy", "pass", "settle down"]), st.none()),
        max_size=30,
    )
)
@on_a_loop
async def test_whatever_happens_every_request_comes_to_its_end(events: list[tuple[str, Any]]) -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(1_000, Metrics()))
    requests: list[Asked] = []
    for event, detail in events:
        if event == "ask":
            requests.append(Asked(cache, *detail))
        elif event == "leave" and requests:
            requests[detail % len(requests)].task.cancel()
        elif event in ("end", "fail", "late") and (waiting := decoder.waiting):
            error = {"end": None, "fail": StepFailed("broken"), "late": DeadlinePassed("late")}[event]
            job, hypothesis = waiting[detail % len(waiting)]
            decoder.end(job, hypothesis, error)
        elif event in ("refuse", "accept"):
            decoder.refusal = Overloaded("full") if event == "refuse" else None
        elif event == "busy":
            decoder.busy = True
        elif event == "pass":
            await asyncio.sleep(0)
        elif event == "settle down":
            await passes(10)
            assert decoder.busy or max(Counter(h.source[0] for _, h in decoder.waiting).values(), default=1) == 1
    decoder.refusal = None
    while not all(request.task.done() for request in requests):
        await passes()
        decoder.end_all()
    for request in requests:
        request.check()
    assert not cache._flights
    assert not decoder.jobs


def test_who_waits_for_a_client_that_leaves_gets_the_answer_all_the_same(bundle_folder: Path, gate: Gate) -> None:
    async def scenario() -> str | None:
        translator: Translator = service.state["translator"]
        leaving = asyncio.create_task(translator.translate(["Hello."], Options("en", "fr")))
        await asyncio.to_thread(gate.entered.wait)
        staying = asyncio.create_task(translator.translate(["Hello.", "The cat sleeps."], Options("en", "fr")))
        await passes()
        assert counted(service.state["metrics"]) == (0, 1, 2)
        leaving.cancel()
        await passes()
        gate.opened.set()
        return (await staying).items[0].text

    with serving(bundle_folder) as service, serving(bundle_folder, cache_bytes=0) as other:
        found = service.run(scenario())
        assert found == other.post("/translate", HELLO).json()["translations"][0]["text"]
