"""The cache: nobody can tell a kept sentence from a decoded one, and whoever waits for another's is not let down."""

from __future__ import annotations

import asyncio
import json
import struct
import tracemalloc
from array import array
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest
from conftest import Gate, serving
from engines import WORDS, Wild
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cache import AT_ONCE, Cache, cached, key_of
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText, Unavailable
from app.metrics import Metrics
from app.scheduler import Job
from app.translation import Options
from app.translator import Translator
from model.bundle import Bundle
from model.hypothesis import Hypothesis

PLENTY = 1 << 20
HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


class Told:
    """Decodes a sentence when it is told to; then it becomes its own source."""

    def __init__(self) -> None:
        self.jobs: list[Job[Hypothesis]] = []
        self.refusal: ServiceError | None = None

    async def decode(self, job: Job[Hypothesis]) -> None:
        if self.refusal:
            raise self.refusal
        done = asyncio.Event()
        job.when_done = done.set
        self.jobs.append(job)
        try:
            await done.wait()
        finally:
            self.jobs.remove(job)

    @property
    def waiting(self) -> list[tuple[Job[Hypothesis], Hypothesis]]:
        return [(job, h) for job in self.jobs for h in job.sentences if not (h.finish_reason or h in job.errors)]

    def end(self, job: Job[Hypothesis], hypothesis: Hypothesis, error: ServiceError | None = None) -> None:
        if not error:
            fill(hypothesis, [hypothesis])
        job.settle(hypothesis, error)

    def end_all(self, error: ServiceError | None = None) -> None:
        for job, hypothesis in self.waiting:
            self.end(job, hypothesis, error)


def fill(hypothesis: Hypothesis, beam: Sequence[Hypothesis]) -> None:
    for found in beam:
        found.tokens, found.log_probs = list(hypothesis.source), [-0.5] * len(hypothesis.source)
        found.aligned, found.looked = array("i", range(len(found.tokens))), array("f", [1.0])
        found.finish_reason = "stop"


def sentences(*sources: int, width: int = 1) -> list[Hypothesis]:
    return [Hypothesis([source], 8, width=width) for source in sources]


class Asked:
    """A request of sentences that are numbers."""

    def __init__(self, cache: Cache, *sources: int, model: str = "en-fr@1") -> None:
        self.settled: Counter[Hypothesis] = Counter()
        self.job = Job(
            model, sentences(*sources), monotonic() + 60, when_settled=lambda sentence: self.settled.update([sentence])
        )
        self.task = asyncio.create_task(cache.decode(self.job))

    @property
    def refused(self) -> bool:
        return self.task.cancelled() or self.task.exception() is not None

    def check(self) -> None:
        """Every sentence was told of once, and is done or has an error."""
        assert self.task.done()
        if not self.refused:
            assert self.settled == Counter(self.job.sentences)
            assert self.job.unfinished == 0
            assert [h.tokens for h in self.job.sentences] == [
                [] if h in self.job.errors else h.source for h in self.job.sentences
            ]


async def passes(number: int = 4) -> None:
    """So many of the event loop."""
    for _ in range(number):
        await asyncio.sleep(0)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Within a time, and without an exception that the event loop alone would see."""

    async def limited() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
        async with asyncio.timeout(30):
            await scenario

    unseen: list[dict[str, Any]] = []
    asyncio.run(limited())
    assert unseen == []


def counted(metrics: Metrics) -> tuple[int, int, int]:
    """Hits, joined, misses."""
    values = (
        metrics.registry.get_sample_value("interlinear_cache_sentences_total", {"result": result})
        for result in ("hit", "joined", "miss")
    )
    hit, joined, miss = (int(value or 0) for value in values)
    return hit, joined, miss


def told(h: Hypothesis) -> tuple[object, ...]:
    """All that can be seen of a sentence without attention, floats by their bits."""
    beams = [_seen(found) for found in h.finished]
    return (*_seen(h), beams, [found is h for found in h.finished])


def _seen(h: Hypothesis) -> tuple[object, ...]:
    log_probs = struct.pack(f"{len(h.log_probs)}d", *h.log_probs)
    kinds = type(h.tokens), type(h.log_probs), type(h.aligned), type(h.looked)
    return (*h.tokens,), log_probs, h.finish_reason, (*h.aligned,), (*h.looked,), kinds


# ---- What is kept

WISHES = ["source", "limit", "forced", "once", "never", "width", "prefix"]
tokens_of = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=8)
wishes = st.builds(
    Hypothesis,
    source=tokens_of,
    limit=st.integers(1, 300),
    forced=st.none() | st.just([]) | st.lists(st.integers(0, 3), max_size=3),
    once=st.lists(st.integers(0, 3), max_size=3),
    never=st.lists(st.integers(0, 3), max_size=3),
    width=st.integers(1, 3),
    prefix=st.lists(st.integers(0, 3), max_size=3),
)


@st.composite
def outcomes(draw: st.DrawFn) -> Hypothesis:
    """A sentence that is decoded, with what its beam found."""
    wish = draw(wishes)
    found = [wish, *(wish.started_again() for _ in range(draw(st.integers(0, 4)) if wish.width > 1 else 0))]
    for one in found:
        one.tokens = draw(tokens_of)
        length = len(one.tokens)
        one.log_probs = draw(st.lists(st.floats(max_value=0), min_size=length, max_size=length))
        one.aligned = array("i", draw(st.lists(st.integers(0, 255), min_size=length, max_size=length)))
        one.looked = array("f", draw(st.lists(st.floats(0, 300, width=32), max_size=9)))
        one.finish_reason = draw(st.sampled_from(["stop", "length"]))
    wish.finished = found if wish.width > 1 else []
    return wish


@given(outcomes())
def test_a_hit_is_to_the_bit_what_was_decoded(wish: Hypothesis) -> None:
    class Decoded:
        """As an engine: into the sentence that it is given."""

        async def decode(self, job: Job[Hypothesis]) -> None:
            for hypothesis in job.sentences:
                for field in ("tokens", "log_probs", "aligned", "looked", "finish_reason"):
                    setattr(hypothesis, field, getattr(wish, field))
                hypothesis.finished = [hypothesis, *wish.finished[1:]] if wish.finished else []

    async def scenario() -> None:
        metrics = Metrics()
        cache = Cache(Decoded(), PLENTY, metrics)
        miss, hit, other = (wish.started_again() for _ in range(3))
        await cache.decode(Job("m", [miss]))
        await cache.decode(Job("m", [hit]))
        expected = told(wish)
        assert told(hit) == told(miss) == expected
        assert all(getattr(hit, field) == getattr(wish, field) for field in WISHES)
        for one in (miss, hit):  # as requests do with theirs
            for found in (one, *one.finished):
                found.tokens.append(7)
                found.log_probs.clear()
                found.aligned[0] = 9  # type: ignore[index]
                found.tokens = []
        await cache.decode(Job("m", [other]))
        assert told(other) == expected
        assert counted(metrics) == (2, 0, 1)

    asyncio.run(scenario())


@given(wishes, wishes)
def test_keys_are_equal_where_all_is_that_a_worker_is_told(one: Hypothesis, other: Hypothesis) -> None:
    key = key_of(b"m", one)
    assert key == key_of(b"m", one.started_again()) != key_of(b"n", one)
    for field in WISHES:
        changed = replace(one, **{field: getattr(other, field)})
        assert (key == key_of(b"m", changed)) == (getattr(one, field) == getattr(other, field))
    assert (key == key_of(b"m", other)) == all(getattr(one, field) == getattr(other, field) for field in WISHES)


def test_what_a_model_decodes_is_the_same_with_the_cache_and_without(bundle: Bundle) -> None:
    """Beams, terms, forced ones and prefixes, several times over and in one job with others."""

    def jobs() -> list[Job[Hypothesis]]:
        random = Random(0)
        made = []
        for _ in range(6):
            ids = [bundle.tokenizer.encode(" ".join(random.choices(WORDS, k=3))) for _ in range(4)]
            plain = [Hypothesis(source, bundle.limits.target(len(source))) for source in ids]
            wanting = [Hypothesis(source, 12, once=source[:1], never=source[-1:]) for source in ids]
            beams = [Hypothesis(source, 12, width=4) for source in ids]
            begun = [Hypothesis(source, 12, prefix=source[:2]) for source in ids]
            forced = [Hypothesis(source, len(source), forced=source) for source in ids]
            made.append(Job(bundle.name, [*plain, *wanting, *beams, *begun, *forced]))
        return made

    async def decode(decoder: Any, jobs: Iterable[Job[Hypothesis]]) -> list[Any]:
        found = []
        for job in jobs:
            await decoder.decode(job)
            found += [[_plain(one) for one in (h, *h.finished)] for h in job.sentences]
        return found

    async def scenario() -> None:
        wild = Wild(bundle)
        cache = Cache(wild, PLENTY, Metrics())
        expected = await decode(Wild(bundle), jobs())
        for rounds in range(2):
            assert await decode(cache, jobs()) == expected
            if not rounds:
                times = len(wild.decoded)
        assert len(wild.decoded) == times

    run(scenario())


def _plain(h: Hypothesis) -> tuple[object, ...]:
    return h.tokens, h.log_probs, h.finish_reason, list(h.aligned), list(h.looked)


def test_a_kept_sentence_needs_no_engine() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
        first = Asked(cache, 1, 2)
        await passes()
        decoder.end_all()
        await first.task
        decoder.refusal = Unavailable("dead")
        again, other = Asked(cache, 2, 1, 2), Asked(cache, 1, model="en-fr@2")
        await asyncio.wait([again.task, other.task])
        again.check()
        assert not again.refused
        assert isinstance(other.task.exception(), Unavailable)

    run(scenario())


def test_recorded_attention_is_neither_kept_nor_waited_for() -> None:
    async def scenario() -> None:
        decoder, metrics = Told(), Metrics()
        cache = Cache(decoder, PLENTY, metrics)
        tasks = [asyncio.create_task(cache.decode(Job("m", [Hypothesis([1], 8, record=True)]))) for _ in range(2)]
        await passes()
        assert len(decoder.jobs) == 2
        decoder.end_all()
        await asyncio.gather(*tasks)
        assert counted(metrics) == (0, 0, 0)
        assert cache.bytes == 0

    run(scenario())


def test_what_was_asked_for_last_is_kept_within_the_bytes() -> None:
    async def scenario() -> None:
        decoder, metrics = Told(), Metrics()
        one = await _kept(Cache(decoder, PLENTY, Metrics()), decoder, 0)
        cache = Cache(decoder, 3 * one, metrics)
        for source in (1, 2, 3, 1, 4):  # 2 was not asked for the longest
            await _kept(cache, decoder, source)
        assert cache.bytes == 3 * one == metrics.registry.get_sample_value("interlinear_cache_bytes")
        assert counted(metrics) == (1, 0, 4)
        for source in (1, 3, 4):
            await _kept(cache, decoder, source)
        assert counted(metrics) == (4, 0, 4)
        await _kept(cache, decoder, 2)
        assert counted(metrics) == (4, 0, 5)
        small = Cache(decoder, one - 1, Metrics())
        assert await _kept(small, decoder, 1) == 0

    run(scenario())


async def _kept(cache: Cache, decoder: Told, *sources: int) -> int:
    """The bytes kept once these are decoded."""
    asked = Asked(cache, *sources)
    await passes()
    decoder.end_all()
    await asked.task
    return cache.bytes


@pytest.mark.parametrize("filled", [0.6, 3.0])
def test_the_bytes_counted_are_those_that_are_taken(filled: float) -> None:
    class Anything:
        async def decode(self, job: Job[Hypothesis]) -> None:
            for hypothesis in job.sentences:
                length = random.randrange(4, 30)
                hypothesis.tokens = random.choices(range(16_000), k=length)
                hypothesis.log_probs = [random.random() for _ in range(length)]
                hypothesis.aligned, hypothesis.looked = array("i", range(length)), array("f", [1.0] * length)
                hypothesis.finish_reason = "stop"

    async def scenario() -> None:
        bound = 1 << 20
        cache = Cache(Anything(), bound, Metrics())
        numbers = count()
        tracemalloc.start()
        for _ in range(int(filled * bound / 700 / AT_ONCE)):
            await cache.decode(Job("en-fr@0123456789ab", [Hypothesis([next(numbers)] * 9, 40) for _ in range(AT_ONCE)]))
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert 0.8 * cache.bytes < taken < 1.1 * cache.bytes
        assert cache.bytes <= bound

    random = Random(0)
    asyncio.run(scenario())


def test_without_bytes_there_is_no_cache() -> None:
    decoder = Told()
    assert cached(decoder, 0, Metrics()) is decoder
    assert isinstance(cached(decoder, 1, Metrics()), Cache)


def test_many_hits_do_not_keep_others_waiting() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
        await _kept(cache, decoder, 1)
        document, found = Asked(cache, *[1] * 1_000), [0]
        while not document.task.done():
            await asyncio.sleep(0)
            found.append(len(document.settled))
        document.check()
        assert max(later - sooner for sooner, later in pairwise(found)) == AT_ONCE

    run(scenario())


# ---- What is being decoded


def test_the_same_sentence_is_decoded_once_for_all_who_wait() -> None:
    async def scenario() -> None:
        decoder, metrics = Told(), Metrics()
        cache = Cache(decoder, PLENTY, metrics)
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

    run(scenario())


def test_a_long_request_waits_for_what_others_began_and_inherits_it_at_once() -> None:
    """It is still being looked up when the others leave: all that it decodes is one job."""

    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


def test_who_waits_takes_over_when_a_request_leaves() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


@pytest.mark.parametrize("error", [DeadlinePassed("late"), Overloaded("full"), TooMuchText("long")])
def test_who_waits_takes_over_what_befell_another_alone(error: ServiceError) -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


@pytest.mark.parametrize("error", [StepFailed("broken"), Unavailable("the workers have died")])
def test_a_sentence_that_fails_fails_for_all_who_wait_and_is_not_kept(error: ServiceError) -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


def test_a_take_over_that_is_refused_is_an_error_of_its_sentences_alone() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


def test_a_request_that_is_refused_is_so_as_without_the_cache() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


def test_who_leaves_while_waiting_is_not_told_of_again() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


def test_an_heir_that_leaves_inherits_no_more_and_passes_on_what_it_has() -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, PLENTY, Metrics())
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

    run(scenario())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.just("ask"), st.lists(st.integers(0, 4), max_size=5))
        | st.tuples(st.sampled_from(["end", "fail", "late", "leave"]), st.integers(0, 9))
        | st.tuples(st.sampled_from(["refuse", "accept", "pass", "settle down"]), st.none()),
        max_size=30,
    )
)
def test_whatever_happens_every_request_comes_to_its_end(events: list[tuple[str, Any]]) -> None:
    async def scenario() -> None:
        decoder = Told()
        cache = Cache(decoder, 1_000, Metrics())
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
            elif event == "pass":
                await asyncio.sleep(0)
            elif event == "settle down":
                await passes(10)
                assert max(Counter(h.source[0] for _, h in decoder.waiting).values(), default=1) == 1
        decoder.refusal = None
        while not all(request.task.done() for request in requests):
            await passes()
            decoder.end_all()
        for request in requests:
            request.check()
        assert not cache._flights
        assert not decoder.jobs

    run(scenario())


# ---- In the service


def test_who_waits_for_a_client_that_leaves_gets_the_answer_all_the_same(bundle_folder: Path, gate: Gate) -> None:
    async def scenario() -> str | None:
        translator: Translator = service.state["translator"]
        leaving = asyncio.create_task(translator.translate(["Hello."], Options("en", "fr")))
        await asyncio.to_thread(gate.entered.wait)
        staying = asyncio.create_task(translator.translate(["Hello.", "The cat sleeps."], Options("en", "fr")))
        await passes()
        assert service.state["engine"].scheduler.waiting <= 1  # for one of the two sentences it waits with the other
        leaving.cancel()
        await passes()
        gate.opened.set()
        return (await staying).items[0].text

    with serving(bundle_folder) as service, serving(bundle_folder, cache_bytes=0) as other:
        found = service.run(scenario())
        assert found == other.post("/translate", HELLO).json()["translations"][0]["text"]


def test_a_sentence_asked_for_again_is_not_decoded_again(bundle_folder: Path, gate: Gate) -> None:
    gate.opened.set()
    with serving(bundle_folder) as service:
        first = service.post("/translate", {**HELLO, "text": "Hello. The cat sleeps."})
        steps = len(gate.sizes)
        again = service.post("/translate", {**HELLO, "text": "Hello. The cat sleeps."})
        streamed = service.post("/translate/stream", {**HELLO, "text": "Hello. The cat sleeps."})
        assert len(gate.sizes) == steps
        metrics = service.get("/metrics").text
    assert again.content == first.content
    parts = [json.loads(line.removeprefix("data: ")) for line in streamed.text.splitlines() if '"item"' in line]
    assert "".join(part["text"] for part in parts) == first.json()["translations"][0]["text"]
    assert 'interlinear_cache_sentences_total{result="hit"} 4.0' in metrics
    assert 'interlinear_cache_sentences_total{result="miss"} 2.0' in metrics
