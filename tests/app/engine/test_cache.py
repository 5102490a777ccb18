"""What the cache keeps, and that cached results equal decoded ones."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import tracemalloc
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakes import PLENTY, WORDS, CacheRequest, FakeDecoder, ManualDecoder, RandomDecoder, counted, on_a_loop, passes
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack, structs
from shared_fixtures import Gate, serving

from app.engine.cache import RESULT_SIZE, CachingDecoder, ResultCache, cache_key, with_cache
from app.engine.engine import Decoder
from app.engine.sequence import Decoded, Sequence
from app.errors import Unavailable
from app.runtime.event_loop import MAX_SIZE
from app.runtime.metrics import Metrics
from model.bundle import Bundle

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
WISHES = ["source", "limit", "forced", "required", "forbidden", "beam_size", "prefix"]
tokens_of = st.lists(st.integers(0, 1 << 20), min_size=1, max_size=8).map(tuple)
few = st.lists(st.integers(0, 3), max_size=3).map(tuple)
wishes = st.builds(
    Sequence,
    model=st.just("m"),
    source=tokens_of,
    limit=st.integers(1, 300),
    forced=st.none() | few,
    required=few,
    forbidden=few,
    beam_size=st.integers(1, 3),
    prefix=few,
)


@st.composite
def outcomes(draw: st.DrawFn, beam: bool = True) -> Decoded:
    """Possible results of a sequence, including those of a beam."""
    tokens = draw(tokens_of)
    length = len(tokens)
    return Decoded(
        tokens,
        tuple(draw(st.lists(st.floats(max_value=0), min_size=length, max_size=length))),
        draw(st.sampled_from(["stop", "length"])),
        tuple(draw(st.lists(st.integers(0, 255), min_size=length, max_size=length))),
        tuple(draw(st.lists(st.floats(0, 300, width=32), max_size=9))),
        tuple(draw(st.lists(outcomes(beam=False), max_size=4))) if beam else (),
    )


async def results(decoder: Decoder, *sequences: Sequence) -> list[Decoded]:
    return [await future for future in await decoder.decode(list(sequences), 1e9)]


@given(wishes, outcomes())
def test_a_hit_equals_the_decoded_result_bit_for_bit(wish: Sequence, outcome: Decoded) -> None:
    class Known(FakeDecoder):
        def answer(self, sequence: Sequence) -> Decoded:
            return outcome

    async def scenario() -> None:
        metrics = Metrics()
        cache = CachingDecoder(Known(), ResultCache(PLENTY, metrics))
        [miss], [hit], [other] = [await results(cache, wish) for _ in range(3)]
        assert msgpack.encode(miss) == msgpack.encode(hit) == msgpack.encode(other) == msgpack.encode(outcome)
        assert hit is not other
        assert counted(metrics) == (2, 0, 1)

    asyncio.run(scenario())


@given(wishes, wishes)
def test_keys_are_equal_for_equal_sequences_only(one: Sequence, other: Sequence) -> None:
    key = cache_key(one)
    assert key == cache_key(structs.replace(one)) != cache_key(structs.replace(one, model="n"))
    for field in WISHES:
        changed = structs.replace(one, **{field: getattr(other, field)})
        assert (key == cache_key(changed)) == (getattr(one, field) == getattr(other, field))
    assert (key == cache_key(other)) == (one == other)


@pytest.mark.slow
@on_a_loop
async def test_results_are_equal_with_and_without_the_cache(bundle: Bundle) -> None:
    """Beams, terms, forced targets and prefixes, several times each and mixed in one request."""

    def requests() -> list[list[Sequence]]:
        random = Random(0)
        made = []
        for _ in range(6):
            ids = [tuple(bundle.source_tokenizer.encode(" ".join(random.choices(WORDS, k=3)))) for _ in range(4)]
            name = bundle.name
            plain = [Sequence(name, source, bundle.limits.target(len(source))) for source in ids]
            wanting = [Sequence(name, source, 12, required=source[:1], forbidden=source[-1:]) for source in ids]
            beams = [Sequence(name, source, 12, beam_size=4) for source in ids]
            begun = [Sequence(name, source, 12, prefix=source[:2]) for source in ids]
            forced = [Sequence(name, source, len(source), forced=source) for source in ids]
            made.append([*plain, *wanting, *beams, *begun, *forced])
        return made

    async def decode(decoder: Decoder, requests: Iterable[list[Sequence]]) -> list[Any]:
        return [await results(decoder, *sequences) for sequences in requests]

    wild = RandomDecoder(bundle)
    cache = CachingDecoder(wild, ResultCache(PLENTY, Metrics()))
    expected = await decode(RandomDecoder(bundle), requests())
    assert await decode(cache, requests()) == expected
    times = len(wild.decoded)
    assert await decode(cache, requests()) == expected
    assert len(wild.decoded) == times


@on_a_loop
async def test_cached_sentence_needs_no_engine() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    first = CacheRequest(cache, 1, 2)
    await passes()
    decoder.end_all()
    await first.task
    decoder.refusal = Unavailable("dead")
    again, other = CacheRequest(cache, 2, 1, 2), CacheRequest(cache, 1, model="en-fr@2")
    await asyncio.wait([again.task, other.task])
    again.check()
    assert not again.refused
    assert isinstance(other.task.exception(), Unavailable)


@on_a_loop
async def test_a_sentence_that_waits_for_the_turns_of_another_client_is_decoded_for_both() -> None:
    decoder = ManualDecoder()
    decoder.busy = True
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    futures = []
    for client in ("many", "many", "few", "few"):
        futures += await cache.decode([Sequence("m", (1,), 8)], math.inf, client)
    assert len(decoder.requests) == 2
    decoder.end(decoder.requests[1][0])  # which ends the other too, that waits
    assert len({await future for future in futures}) == 1
    assert not decoder.requests
    assert not cache.jobs


@on_a_loop
async def test_recorded_attention_is_neither_cached_nor_shared() -> None:
    decoder, metrics = ManualDecoder(), Metrics()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, metrics))
    tasks = [asyncio.create_task(results(cache, Sequence("m", (1,), 8, attention=True))) for _ in range(2)]
    await passes()
    assert len(decoder.requests) == 2
    decoder.end_all()
    await asyncio.gather(*tasks)
    assert counted(metrics) == (0, 0, 0)
    assert cache.results.bytes == 0


@on_a_loop
async def test_least_recently_used_results_are_evicted() -> None:
    decoder, metrics = ManualDecoder(), Metrics()
    one = await _kept(CachingDecoder(decoder, ResultCache(PLENTY, Metrics())), decoder, 0)
    cache = CachingDecoder(decoder, ResultCache(3 * one, metrics))
    for source in (1, 2, 3, 1, 4):  # 2 was not asked for the longest
        await _kept(cache, decoder, source)
    assert cache.results.bytes == 3 * one == metrics.registry.get_sample_value("interlinear_cache_bytes")
    assert counted(metrics) == (1, 0, 4)
    for source in (1, 3, 4):
        await _kept(cache, decoder, source)
    assert counted(metrics) == (4, 0, 4)
    await _kept(cache, decoder, 2)
    assert counted(metrics) == (4, 0, 5)
    small = CachingDecoder(decoder, ResultCache(one - 1, Metrics()))
    assert await _kept(small, decoder, 1) == 0


async def _kept(cache: CachingDecoder, decoder: ManualDecoder, *sources: int) -> int:
    """The bytes in the cache after decoding these."""
    asked = CacheRequest(cache, *sources)
    await passes()
    decoder.end_all()
    await asked.task
    return cache.results.bytes


@pytest.mark.slow
@pytest.mark.parametrize("filled", [0.6, 3.0])
def test_counted_bytes_match_the_memory_used(filled: float) -> None:
    class Anything(FakeDecoder):
        def answer(self, sequence: Sequence) -> Decoded:
            length = random.randrange(4, 30)
            tokens = tuple(random.choices(range(16_000), k=length))
            log_probs = tuple(random.random() for _ in range(length))
            return Decoded(tokens, log_probs, "stop", tuple(range(length)), (1.0,) * length)

    async def scenario() -> None:
        bound = 1 << 20
        cache = CachingDecoder(Anything(), ResultCache(bound, Metrics()))
        numbers = count()
        tracemalloc.start()
        for _ in range(int(filled * bound / 700 / 32)):
            await results(cache, *(Sequence("en-fr@0123456789ab", (next(numbers),) * 9, 40) for _ in range(32)))
        gc.collect()  # it empties the lists in which Python keeps freed tuples for the next
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert 0.8 * cache.results.bytes < taken < 1.1 * cache.results.bytes
        assert cache.results.bytes <= bound

    random = Random(0)
    asyncio.run(scenario())


def test_zero_bytes_turn_the_cache_off() -> None:
    decoder = ManualDecoder()
    assert with_cache(decoder, ResultCache(0, Metrics())) is decoder
    assert isinstance(with_cache(decoder, ResultCache(1, Metrics())), CachingDecoder)


@on_a_loop
async def test_many_hits_do_not_delay_other_requests() -> None:
    decoder = ManualDecoder()
    cache = CachingDecoder(decoder, ResultCache(PLENTY, Metrics()))
    await _kept(cache, decoder, 1)
    document, others = CacheRequest(cache, *[1] * (4 * MAX_SIZE // RESULT_SIZE)), 0
    while not document.task.done():
        await asyncio.sleep(0)
        others += 1
    document.check()
    assert others >= 4


def test_repeated_sentence_is_not_decoded_again(bundle_folder: Path, gate: Gate) -> None:
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
