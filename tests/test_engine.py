"""One thread decodes for everybody: together, as each alone would be, and whatever goes wrong is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from conftest import Gate, make_bundle

from app.engine import Engine
from app.errors import StepFailed, Unavailable
from app.metrics import Metrics
from app.scheduler import Job, Scheduler
from model.bundle import Bundle, load_bundle
from model.decoding import DecodeBatch, Hypothesis, greedy_decode

TEXTS = ["Hello.", "How are you?", "I am well, thank you.", "The cat sleeps.", "x", "Hello hello hello hello hello."]


@contextmanager
def running(*bundles: Bundle, rows: int = 8) -> Iterator[Engine]:
    engine = Engine(bundles, Scheduler(100_000), Metrics(), rows)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="module")
def other_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return load_bundle(make_bundle(tmp_path_factory.mktemp("other") / "de", "de", "fr", seed=1), torch.device("cpu"))


def job(bundle: Bundle, *texts: str) -> Job[Hypothesis]:
    sources = [bundle.tokenizer.encode(text) for text in texts]
    return Job(bundle.name, [Hypothesis(ids, bundle.limits.target(len(ids))) for ids in sources])


def alone(bundle: Bundle, text: str) -> list[int]:
    return greedy_decode(bundle.model, [bundle.tokenizer.encode(text)], bundle.limits)[0].tokens


async def until(engine: Engine, waiting: int) -> None:
    while engine.scheduler.waiting != waiting:  # noqa: ASYNC110 (the scheduler has no events)
        await asyncio.sleep(0.001)


def test_concurrent_requests_share_steps_and_come_out_as_each_would_alone(bundle: Bundle, gate: Gate) -> None:
    async def scenario(engine: Engine) -> None:
        first = asyncio.create_task(engine.decode(jobs[0]))
        await asyncio.to_thread(gate.entered.wait)
        others = [asyncio.create_task(engine.decode(job)) for job in jobs[1:]]
        await until(engine, waiting=len(TEXTS) - 1)
        gate.opened.set()
        await asyncio.gather(first, *others)

    jobs = [job(bundle, text) for text in TEXTS]
    with running(bundle) as engine:
        asyncio.run(scenario(engine))
    assert max(gate.sizes) > 1
    assert [request.sentences[0].tokens for request in jobs] == [alone(bundle, text) for text in TEXTS]


def test_more_sentences_than_rows_are_all_decoded(bundle: Bundle) -> None:
    request = job(bundle, *TEXTS * 4)
    with running(bundle, rows=3) as engine:
        asyncio.run(engine.decode(request))
    assert [h.tokens for h in request.sentences] == [alone(bundle, text) for text in TEXTS] * 4


def test_bundles_take_turns(bundle: Bundle, other_bundle: Bundle) -> None:
    async def scenario(engine: Engine) -> None:
        await asyncio.gather(*map(engine.decode, jobs))

    jobs = [job(bundle, TEXTS[1]), job(other_bundle, TEXTS[1])]
    with running(bundle, other_bundle) as engine:
        asyncio.run(scenario(engine))
    assert [request.sentences[0].tokens for request in jobs] == [alone(bundle, TEXTS[1]), alone(other_bundle, TEXTS[1])]


def test_a_failing_step_fails_its_sentences_alone_and_the_engine_goes_on(
    bundle: Bundle, other_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fragile(DecodeBatch):
        def step(self) -> list[Hypothesis]:
            if len(self.running[0].tokens) == 2 and self.running[0].source == poison:
                raise RuntimeError("a kernel failed")
            return super().step()

    async def scenario(engine: Engine) -> None:
        await asyncio.gather(engine.decode(bad), engine.decode(good))
        await engine.decode(later)

    monkeypatch.setattr("app.engine.DecodeBatch", Fragile)
    poison = bundle.tokenizer.encode(TEXTS[2])
    bad, good, later = job(bundle, TEXTS[2]), job(other_bundle, TEXTS[0]), job(bundle, TEXTS[0])
    with running(bundle, other_bundle) as engine:
        asyncio.run(scenario(engine))
        assert engine.ready
    assert isinstance(bad.errors[bad.sentences[0]], StepFailed)
    assert not good.errors
    assert good.sentences[0].tokens == alone(other_bundle, TEXTS[0])
    assert later.sentences[0].tokens == alone(bundle, TEXTS[0])


def test_sentences_that_cannot_be_encoded_fail_without_those_being_decoded(
    bundle: Bundle, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(engine: Engine) -> None:
        first = asyncio.create_task(engine.decode(good))
        await asyncio.to_thread(gate.entered.wait)
        second = asyncio.create_task(engine.decode(bad))
        await until(engine, waiting=1)
        gate.opened.set()
        await asyncio.gather(first, second)

    good, bad = job(bundle, TEXTS[2]), job(bundle, "Hello.")
    bad.sentences[0].source = [10**9]  # no such token
    with running(bundle) as engine:
        asyncio.run(scenario(engine))
    assert set(bad.errors) == set(bad.sentences)
    assert good.sentences[0].tokens == alone(bundle, TEXTS[2])


@pytest.mark.parametrize("death", [SystemExit("killed"), KeyboardInterrupt()])
def test_when_the_thread_dies_everybody_is_told(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, death: BaseException
) -> None:
    class Deadly(DecodeBatch):
        def step(self) -> list[Hypothesis]:
            raise death

    async def scenario(engine: Engine) -> None:
        outcomes = await asyncio.gather(*(engine.decode(job(bundle, *TEXTS)) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        with pytest.raises(Unavailable, match=type(death).__name__):
            await engine.decode(job(bundle, "Hello."))

    monkeypatch.setattr("app.engine.DecodeBatch", Deadly)
    with running(bundle, rows=2) as engine:
        asyncio.run(scenario(engine))
        assert not engine.ready
        assert engine.failure is not None


def test_a_wrong_sample_stops_the_engine_and_says_which(tmp_path: Path) -> None:
    sample = {"source": "Hello.", "target": "?", "source_ids": [40], "target_ids": [2]}
    bundle = load_bundle(make_bundle(tmp_path / "b", samples=[sample]), torch.device("cpu"))
    assert alone(bundle, "Hello.") != [2]
    with running(bundle) as engine, pytest.raises(Unavailable, match=r"'Hello\.' is not translated as on export"):
        asyncio.run(engine.decode(job(bundle, "Hello.")))


def test_a_cancelled_job_leaves_queue_and_batch(bundle: Bundle, gate: Gate) -> None:
    async def scenario(engine: Engine) -> None:
        tasks = [asyncio.create_task(engine.decode(request)) for request in (decoding, waiting)]
        await asyncio.to_thread(gate.entered.wait)
        await until(engine, waiting=1)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert engine.scheduler.waiting == 0
        gate.opened.set()
        await engine.decode(later)

    decoding, waiting, later = job(bundle, TEXTS[2]), job(bundle, TEXTS[0]), job(bundle, TEXTS[1])
    with running(bundle, rows=1) as engine:
        asyncio.run(scenario(engine))
    assert len(decoding.sentences[0].tokens) == 1  # the step that was under way
    assert waiting.sentences[0].tokens == []
    assert later.sentences[0].tokens == alone(bundle, TEXTS[1])


def test_stopping_finishes_what_was_accepted_and_accepts_no_more(bundle: Bundle, gate: Gate) -> None:
    async def scenario(engine: Engine) -> None:
        accepted = asyncio.create_task(engine.decode(request))
        await asyncio.to_thread(gate.entered.wait)
        stopped = asyncio.create_task(asyncio.to_thread(engine.stop))
        while not engine._stopping:  # noqa: ASYNC110 (nor has this)
            await asyncio.sleep(0.001)
        with pytest.raises(Unavailable):
            await engine.decode(job(bundle, "Hello."))
        gate.opened.set()
        await asyncio.gather(accepted, stopped)

    request = job(bundle, *TEXTS)
    with running(bundle, rows=2) as engine:
        asyncio.run(scenario(engine))
    assert [h.tokens for h in request.sentences] == [alone(bundle, text) for text in TEXTS]


def test_a_job_without_sentences_needs_no_engine(bundle: Bundle) -> None:
    asyncio.run(Engine([bundle], Scheduler(1), Metrics()).decode(job(bundle)))
