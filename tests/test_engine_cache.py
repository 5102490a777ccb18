"""What the cache keeps, and that nobody can tell it from what was decoded."""

from __future__ import annotations

import asyncio
import gc
import json
import struct
import tracemalloc
from array import array
from collections.abc import Iterable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Gate, serving
from fakes import PLENTY, WORDS, Asked, Told, Wild, counted, on_a_loop, passes
from hypothesis import given
from hypothesis import strategies as st

from app.engine.cache import AT_ONCE, Answers, Cache, cached, key_of
from app.engine.scheduler import Job
from app.errors import Unavailable
from app.runtime.metrics import Metrics
from model.bundle import Bundle
from model.hypothesis import Hypothesis

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


def told(h: Hypothesis) -> tuple[object, ...]:
    """All that can be seen of a sentence without attention, floats by their bits."""
    beams = [_seen(found) for found in h.finished]
    return (*_seen(h), beams, [found is h for found in h.finished])


def _seen(h: Hypothesis) -> tuple[object, ...]:
    log_probs = struct.pack(f"{len(h.log_probs)}d", *h.log_probs)
    kinds = type(h.tokens), type(h.log_probs), type(h.aligned), type(h.looked)
    return (*h.tokens,), log_probs, h.finish_reason, (*h.aligned,), (*h.looked,), kinds


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
        cache = Cache(Decoded(), Answers(PLENTY, metrics))
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
    key = key_of("m", one)
    assert key == key_of("m", one.started_again()) != key_of("n", one)
    for field in WISHES:
        changed = replace(one, **{field: getattr(other, field)})
        assert (key == key_of("m", changed)) == (getattr(one, field) == getattr(other, field))
    assert (key == key_of("m", other)) == all(getattr(one, field) == getattr(other, field) for field in WISHES)


@pytest.mark.slow
@on_a_loop
async def test_what_a_model_decodes_is_the_same_with_the_cache_and_without(bundle: Bundle) -> None:
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

    wild = Wild(bundle)
    cache = Cache(wild, Answers(PLENTY, Metrics()))
    expected = await decode(Wild(bundle), jobs())
    assert await decode(cache, jobs()) == expected
    times = len(wild.decoded)
    assert await decode(cache, jobs()) == expected
    assert len(wild.decoded) == times


def _plain(h: Hypothesis) -> tuple[object, ...]:
    return h.tokens, h.log_probs, h.finish_reason, list(h.aligned), list(h.looked)


@on_a_loop
async def test_a_kept_sentence_needs_no_engine() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
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


@on_a_loop
async def test_recorded_attention_is_neither_kept_nor_waited_for() -> None:
    decoder, metrics = Told(), Metrics()
    cache = Cache(decoder, Answers(PLENTY, metrics))
    tasks = [asyncio.create_task(cache.decode(Job("m", [Hypothesis([1], 8, record=True)]))) for _ in range(2)]
    await passes()
    assert len(decoder.jobs) == 2
    decoder.end_all()
    await asyncio.gather(*tasks)
    assert counted(metrics) == (0, 0, 0)
    assert cache.answers.bytes == 0


@on_a_loop
async def test_what_was_asked_for_last_is_kept_within_the_bytes() -> None:
    decoder, metrics = Told(), Metrics()
    one = await _kept(Cache(decoder, Answers(PLENTY, Metrics())), decoder, 0)
    cache = Cache(decoder, Answers(3 * one, metrics))
    for source in (1, 2, 3, 1, 4):  # 2 was not asked for the longest
        await _kept(cache, decoder, source)
    assert cache.answers.bytes == 3 * one == metrics.registry.get_sample_value("interlinear_cache_bytes")
    assert counted(metrics) == (1, 0, 4)
    for source in (1, 3, 4):
        await _kept(cache, decoder, source)
    assert counted(metrics) == (4, 0, 4)
    await _kept(cache, decoder, 2)
    assert counted(metrics) == (4, 0, 5)
    small = Cache(decoder, Answers(one - 1, Metrics()))
    assert await _kept(small, decoder, 1) == 0


async def _kept(cache: Cache, decoder: Told, *sources: int) -> int:
    """The bytes kept once these are decoded."""
    asked = Asked(cache, *sources)
    await passes()
    decoder.end_all()
    await asked.task
    return cache.answers.bytes


@pytest.mark.slow
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
        cache = Cache(Anything(), Answers(bound, Metrics()))
        numbers = count()
        tracemalloc.start()
        for _ in range(int(filled * bound / 700 / AT_ONCE)):
            await cache.decode(Job("en-fr@0123456789ab", [Hypothesis([next(numbers)] * 9, 40) for _ in range(AT_ONCE)]))
        gc.collect()  # it empties the lists in which Python keeps freed tuples for the next
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert 0.8 * cache.answers.bytes < taken < 1.1 * cache.answers.bytes
        assert cache.answers.bytes <= bound

    random = Random(0)
    asyncio.run(scenario())


def test_without_bytes_there_is_no_cache() -> None:
    decoder = Told()
    assert cached(decoder, Answers(0, Metrics())) is decoder
    assert isinstance(cached(decoder, Answers(1, Metrics())), Cache)


@on_a_loop
async def test_many_hits_do_not_keep_others_waiting() -> None:
    decoder = Told()
    cache = Cache(decoder, Answers(PLENTY, Metrics()))
    await _kept(cache, decoder, 1)
    document, found = Asked(cache, *[1] * 1_000), [0]
    while not document.task.done():
        await asyncio.sleep(0)
        found.append(len(document.settled))
    document.check()
    assert max(later - sooner for sooner, later in pairwise(found)) == AT_ONCE


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
