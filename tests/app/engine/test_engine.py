"""app/engine/engine.py: the front and its workers: results equal those of single sentences, and every failure is
reported or recovered from."""

from __future__ import annotations

import asyncio
import math
import os
import select
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
import torch
import uvloop
from numpy.typing import NDArray
from servers import WAIT_S
from shared_fixtures import Gate, decode_with, make_bundle

from app.engine.engine import Engine
from app.engine.launch import EarlyWorkers, InProcessWorker, Launch, Worker, WorkerProcess
from app.engine.loaded_models import LoadedModels
from app.engine.messages import LoadResult, WorkerConfig
from app.engine.scheduler import MAX_DEATHS, Scheduler
from app.engine.sequence import Attention, Decoded, Sequence, Weights
from app.errors import ServiceError, StepFailed, Unavailable
from app.runtime.frames import encode_frame
from app.runtime.metrics import Metrics
from app.runtime.process_memory import proportional_set_size
from app.runtime.supervision import Supervision
from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding import decode_all, greedy_decode
from model.decoding.batch import DecodeBatch
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis

pytestmark = pytest.mark.slow

TEXTS = ["Hello.", "How are you?", "I am well, thank you.", "The cat sleeps.", "x", "Hello hello hello hello hello."]


def engine_of(
    *bundles: LoadedBundle,
    rows: int = 8,
    workers: int = 1,
    launch: Launch = InProcessWorker,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    memory_bytes: int | None = None,
    precision: str = "float32",
    **supervision: Any,
) -> Engine:
    config = WorkerConfig([bundle.spec for bundle in bundles], "cpu", precision, 0, rows, memory_bytes=memory_bytes)
    chosen = Supervision(**supervision)
    scheduler = Scheduler(1_000_000, models=LoadedModels(memory_bytes))
    return Engine(config, scheduler, Metrics(), launch, workers, supervision=chosen, sleep=sleep)


def supervise(engine: Engine, **supervision: Any) -> None:
    """Changes limits of a running engine."""
    engine.supervision = replace(engine.supervision, **supervision)


@asynccontextmanager
async def running(engine: Engine) -> AsyncIterator[Engine]:
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


@pytest.fixture(scope="module")
def other_bundle(tmp_path_factory: pytest.TempPathFactory) -> LoadedBundle:
    return load_bundle(make_bundle(tmp_path_factory.mktemp("other") / "de", "de", "fr", seed=1), torch.device("cpu"))


class Request:
    """Sentences to decode together, and the result of each."""

    def __init__(self, bundle: LoadedBundle, *sources: list[int]) -> None:
        self.sequences = [Sequence(bundle.name, tuple(ids), bundle.limits.target(len(ids))) for ids in sources]
        self.answers: dict[int, Decoded] = {}
        self.errors: dict[int, ServiceError] = {}
        self.answered = 0
        """Times that `decode` returned."""

    async def decode(self, engine: Engine) -> None:
        futures = await engine.decode(self.sequences, monotonic() + 600)
        for number, future in enumerate(futures):
            future.add_done_callback(partial(self._note, number))
        try:
            if futures:
                await asyncio.wait(futures)
        except asyncio.CancelledError:
            for future in futures:
                future.cancel()
            raise
        self.answered += 1

    def _note(self, number: int, future: asyncio.Future[Decoded]) -> None:
        if future.cancelled():
            return
        assert number not in self.answers
        assert number not in self.errors
        error = future.exception()
        if error is None:
            self.answers[number] = future.result()
        else:
            assert isinstance(error, ServiceError)
            self.errors[number] = error

    @property
    def tokens(self) -> list[list[int]]:
        """Tokens of all sentences; without any, of those that failed or were cancelled."""
        return [list(self.answers[n].tokens) if n in self.answers else [] for n in range(len(self.sequences))]


def asking(bundle: LoadedBundle, *texts: str) -> Request:
    return Request(bundle, *map(bundle.source_tokenizer.encode, texts))


def alone(bundle: LoadedBundle, text: str) -> list[int]:
    return greedy_decode(bundle.model, [bundle.source_tokenizer.encode(text)], bundle.limits)[0].tokens


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 (the engine sets no event for it)
            await asyncio.sleep(0.001)


def test_concurrent_requests_share_steps_and_get_the_results_of_single_ones(bundle: LoadedBundle, gate: Gate) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle)) as engine:
            first = asyncio.create_task(requests[0].decode(engine))
            await asyncio.to_thread(gate.entered.wait)
            others = [asyncio.create_task(request.decode(engine)) for request in requests[1:]]
            await asyncio.sleep(0.01)
            gate.opened.set()
            await asyncio.gather(first, *others)

    requests = [asking(bundle, text) for text in TEXTS]
    asyncio.run(scenario())
    assert max(gate.sizes) > 1
    assert [request.tokens[0] for request in requests] == [alone(bundle, text) for text in TEXTS]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "workers"), [(3, 1), (4, 3)])
def test_more_sentences_than_rows_are_all_decoded(bundle: LoadedBundle, rows: int, workers: int) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle, rows=rows, workers=workers)) as engine:
            await request.decode(engine)

    request = asking(bundle, *TEXTS * 4)
    asyncio.run(scenario())
    assert request.tokens == [alone(bundle, text) for text in TEXTS] * 4
    assert all(answer.finish_reason for answer in request.answers.values())


def test_bundles_take_turns(bundle: LoadedBundle, other_bundle: LoadedBundle) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle, other_bundle)) as engine:
            await asyncio.gather(*(request.decode(engine) for request in requests))

    requests = [asking(bundle, TEXTS[1]), asking(other_bundle, TEXTS[1])]
    asyncio.run(scenario())
    assert [request.tokens[0] for request in requests] == [alone(bundle, TEXTS[1]), alone(other_bundle, TEXTS[1])]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_bundles_that_do_not_fit_in_memory_together_serve_all_requests_in_turn(
    bundle: LoadedBundle, other_bundle: LoadedBundle, workers: int
) -> None:
    async def scenario() -> float:
        engine = engine_of(bundle, other_bundle, workers=workers, memory_bytes=size)
        async with running(engine):
            await engine.wait_started()
            assert engine.scheduler.models.loaded == 0
            await asyncio.gather(*(request.decode(engine) for request in requests))
            assert engine.scheduler.models.loaded == 1
        return engine.metrics.registry.get_sample_value("interlinear_model_unloads_total") or 0

    size = sum(parameter.nbytes for parameter in bundle.model.parameters())
    pairs = [(one, text) for text in TEXTS for one in (bundle, other_bundle)]
    requests = [asking(one, text, "Hello.") for one, text in pairs]
    unloads = asyncio.run(scenario())
    assert [request.tokens for request in requests] == [[alone(one, text), alone(one, "Hello.")] for one, text in pairs]
    assert unloads >= 1


def test_constraints_and_attention_cross_processes_unchanged(bundle: LoadedBundle) -> None:
    async def scenario() -> Decoded:
        async with running(engine_of(bundle)) as engine:
            [future] = await engine.decode([asked], monotonic() + 600)
            return await future

    source, target = (bundle.source_tokenizer.encode(text) for text in (TEXTS[2], "Bonjour."))
    asked = Sequence(bundle.name, tuple(source), len(target), tuple(target), attention=True)
    served = asyncio.run(scenario())
    here = Hypothesis(source, len(target), target, record=True)
    batch = TorchBackend(bundle.model).new_batch(1, bundle.limits)
    batch.admit([here])
    while batch.running:
        batch.step()
    assert (list(served.tokens), list(served.log_probs)) == (here.tokens, here.log_probs)
    assert here.encoder_attention is not None
    assert served.attention == Attention(
        *map(recorded, (here.encoder_attention, here.decoder_attention, here.cross_attention))
    )


def recorded(weights: NDArray[np.float32]) -> Weights:
    return Weights(weights.shape, "float32", weights.tobytes())


def test_a_sentence_that_breaks_its_step_fails_alone(
    bundle: LoadedBundle, other_bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fragile(DecodeBatch):
        def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
            if any(len(h.tokens) == 2 and h.source == poison for h in self.running):
                raise RuntimeError("a kernel failed")
            return super().step(most, enough)

    async def scenario() -> None:
        async with running(engine_of(bundle, other_bundle)) as engine:
            await asyncio.gather(bad.decode(engine), good.decode(engine), other.decode(engine))
            assert engine.ready

    decode_with(Fragile, monkeypatch)
    poison = bundle.source_tokenizer.encode(TEXTS[2])
    bad, good, other = asking(bundle, TEXTS[2]), asking(bundle, TEXTS[0]), asking(other_bundle, TEXTS[0])
    asyncio.run(scenario())
    assert isinstance(bad.errors[0], StepFailed)
    assert not good.errors
    assert good.tokens[0] == alone(bundle, TEXTS[0])
    assert other.tokens[0] == alone(other_bundle, TEXTS[0])


def test_a_sentence_that_cannot_be_encoded_fails_without_those_being_decoded(bundle: LoadedBundle, gate: Gate) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle)) as engine:
            first = asyncio.create_task(good.decode(engine))
            await asyncio.to_thread(gate.entered.wait)
            second = asyncio.create_task(bad.decode(engine))
            await asyncio.sleep(0.01)
            gate.opened.set()
            await asyncio.gather(first, second)

    good, bad = asking(bundle, TEXTS[2]), Request(bundle, [10**9])  # no such token
    asyncio.run(scenario())
    assert set(bad.errors) == {0}
    assert good.tokens[0] == alone(bundle, TEXTS[2])


def test_cancelled_job_leaves_queue_and_batch_within_a_step(bundle: LoadedBundle, gate: Gate) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle, rows=1)) as engine:
            tasks = [asyncio.create_task(request.decode(engine)) for request in (decoding, waiting)]
            await asyncio.to_thread(gate.entered.wait)
            await until(lambda: engine.scheduler.waiting == 1)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert engine.scheduler.waiting == 0
            await asyncio.sleep(0.01)
            gate.opened.set()
            await later.decode(engine)

    decoding, waiting, later = asking(bundle, TEXTS[2]), asking(bundle, TEXTS[0]), asking(bundle, TEXTS[1])
    asyncio.run(scenario())
    # The step that was under way, and then those of the last alone.
    assert gate.sizes == [1] * (1 + len(alone(bundle, TEXTS[1])))
    assert decoding.tokens == waiting.tokens == [[]]
    assert not (decoding.errors or waiting.errors)
    assert later.tokens[0] == alone(bundle, TEXTS[1])


@pytest.mark.slow
def test_single_sentence_does_not_wait_for_a_document(bundle: LoadedBundle) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle, rows=4)) as engine:
            work = asyncio.create_task(document.decode(engine))
            await until(lambda: len(document.answers) > 0)
            await single.decode(engine)
            done.append(len(document.answers))
            await work

    document, single = asking(bundle, *["The cat sleeps."] * 100), asking(bundle, "Hello.")
    done: list[int] = []
    asyncio.run(scenario())
    assert done[0] < 60


def test_stopping_finishes_accepted_requests_and_accepts_no_more(bundle: LoadedBundle, gate: Gate) -> None:
    async def scenario() -> None:
        engine = engine_of(bundle, rows=2)
        await engine.start()
        accepted = asyncio.create_task(request.decode(engine))
        await asyncio.to_thread(gate.entered.wait)
        stopped = asyncio.create_task(engine.stop())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="stopping"):
            await asking(bundle, "Hello.").decode(engine)
        gate.opened.set()
        await asyncio.gather(accepted, stopped)

    request = asking(bundle, *TEXTS)
    asyncio.run(scenario())
    assert request.tokens == [alone(bundle, text) for text in TEXTS]


def test_a_job_without_sentences_needs_no_engine(bundle: LoadedBundle) -> None:
    asyncio.run(asking(bundle).decode(engine_of(bundle)))


# ---- Workers that die


def test_sentence_that_kills_every_worker_fails_and_the_others_succeed(
    bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deadly(DecodeBatch):
        def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
            if any(h.source == poison for h in self.running):
                raise SystemExit("killed")
            return super().step(most, enough)

    async def scenario() -> None:
        async with running(engine_of(bundle, rows=4, restart_delays_s=(0.0,))) as engine:
            await asyncio.gather(*(request.decode(engine) for request in requests))
            assert engine.metrics.restarts._value.get() >= MAX_DEATHS - 1
            await until(lambda: engine.ready)
            assert engine.failure is None

    decode_with(Deadly, monkeypatch)
    poison = bundle.source_tokenizer.encode(TEXTS[2])
    requests = [asking(bundle, text) for text in TEXTS]
    asyncio.run(scenario())
    bad = requests.pop(2)
    assert isinstance(bad.errors[0], StepFailed)
    assert [request.errors for request in requests] == [{}] * len(requests)
    texts = [text for text in TEXTS if text != TEXTS[2]]
    assert [request.tokens[0] for request in requests] == [alone(bundle, text) for text in texts]


def test_without_a_worker_requests_are_refused_until_one_is_back(bundle: LoadedBundle) -> None:
    started: list[Worker] = []

    def launch(config: WorkerConfig) -> Worker:
        started.append(InProcessWorker(config))
        return started[-1]

    async def scenario() -> None:
        async with running(engine_of(bundle, launch=launch, restart_delays_s=(0.05,))) as engine:
            await until(lambda: engine.ready)
            started[0].kill()
            await until(lambda: not engine.ready)
            assert engine.failure is not None
            assert "died" in engine.failure
            with pytest.raises(Unavailable, match="died"):
                await asking(bundle, "Hello.").decode(engine)
            await until(lambda: engine.ready)
            assert engine.failure is None
            await request.decode(engine)

    request = asking(bundle, "Hello.")
    asyncio.run(scenario())
    assert request.tokens[0] == alone(bundle, "Hello.")


def test_worker_that_is_starting_when_the_engine_stops_is_closed(bundle: LoadedBundle) -> None:
    def launch(config: WorkerConfig) -> Worker:
        launching.set()
        assert go_on.wait(WAIT_S)
        started.append(InProcessWorker(config))
        return started[-1]

    async def scenario() -> None:
        engine = engine_of(bundle, launch=launch)
        await engine.start()
        await until(launching.is_set)
        stopping = asyncio.create_task(engine.stop())
        await asyncio.sleep(0)
        go_on.set()
        await stopping
        assert started[0].wait() == "ended"

    launching, go_on = threading.Event(), threading.Event()
    started: list[Worker] = []
    asyncio.run(scenario())
    assert started[0].end.fileno() == -1


def test_repeatedly_dying_workers_are_restarted_at_growing_intervals(bundle: LoadedBundle) -> None:
    def launch(_: WorkerConfig) -> Worker:
        raise OSError("no memory for it")

    async def sleep(seconds: float) -> None:
        if seconds != Supervision.check_interval_s:
            slept.append(seconds)
        await asyncio.sleep(0.001)

    async def scenario() -> None:
        async with running(engine_of(bundle, launch=launch, sleep=sleep)) as engine:
            await until(lambda: engine.failure is not None)
            with pytest.raises(Unavailable, match="no memory for it"):
                await asking(bundle, "Hello.").decode(engine)
            await until(lambda: len(slept) >= 10)

    slept: list[float] = []
    asyncio.run(scenario())
    assert slept[0] == 0
    assert slept == sorted(slept)
    assert slept[-1] == slept[-2] >= 30


def test_hanging_worker_is_killed_and_its_work_is_redone(bundle: LoadedBundle) -> None:
    class Hanging:
        """Reports that it is ready, and nothing more."""

        pid: int | None = None

        def __init__(self) -> None:
            self.end, self.theirs = socket.socketpair()
            self.theirs.sendall(encode_frame(LoadResult("", 8, {})))

        def kill(self) -> None:
            supervise(engine, check_interval_s=60.0)
            self.theirs.close()

        def wait(self) -> str:
            return "killed"

    def launch(config: WorkerConfig) -> Worker:
        started.append(InProcessWorker(config) if started else Hanging())
        return started[-1]

    async def scenario() -> None:
        async with running(engine):
            await request.decode(engine)

    started: list[Worker] = []
    engine = engine_of(bundle, launch=launch, check_interval_s=0.01)
    request = asking(bundle, *TEXTS)
    asyncio.run(scenario())
    assert len(started) == 2
    assert request.tokens == [alone(bundle, text) for text in TEXTS]


def test_worker_that_cannot_be_killed_gets_no_more_work(bundle: LoadedBundle) -> None:
    """Such as a worker that waits forever for a disk or a GPU: the kernel removes it only when that responds."""

    class Undying:
        """Reports that it is ready, and nothing more; its process never ends."""

        pid: int | None = None

        def __init__(self) -> None:
            self.end, self.theirs = socket.socketpair()
            self.theirs.sendall(encode_frame(LoadResult("", 8, {})))

        def kill(self) -> None:
            supervise(engine, check_interval_s=60.0)

        def wait(self) -> str:
            done.wait()
            return "killed"

    def launch(config: WorkerConfig) -> Worker:  # two at once
        return Undying() if next(numbers) == 0 else InProcessWorker(config)

    async def scenario() -> None:
        async with running(engine):
            await until(lambda: engine.alive == 2)
            try:
                waiting = asyncio.gather(*(request.decode(engine) for request in requests))
                await until(lambda: has_all_left(engine))
                supervise(engine, max_silent_checks=6)
                await waiting
                assert engine.alive == 1
            finally:
                done.set()

    def has_all_left(engine: Engine) -> bool:
        """Whether only the undying worker still has work; the other may be slow."""
        begun = any(request.answers for request in requests)
        return begun and sum(engine.scheduler.is_busy(slot.number) for slot in engine._slots) == 1

    done = threading.Event()
    numbers = count()
    patience: dict[str, Any] = {
        "check_interval_s": 0.1,
        "max_silent_checks": 1_000_000,
        "max_silent_checks_loading": 1_000_000,
    }
    engine = engine_of(bundle, workers=2, launch=launch, **patience)
    requests = [asking(bundle, text) for text in TEXTS]
    asyncio.run(scenario())
    assert [request.tokens[0] for request in requests] == [alone(bundle, text) for text in TEXTS]


def test_worker_that_hangs_while_loading_does_not_delay_the_others(bundle: LoadedBundle) -> None:
    class Loading:
        pid: int | None = None

        def __init__(self) -> None:
            self.end, self.theirs = socket.socketpair()

        def kill(self) -> None:
            self.theirs.close()

        def wait(self) -> str:
            return "killed"

    def launch(config: WorkerConfig) -> Worker:  # two at once
        return Loading() if next(numbers) == 0 else InProcessWorker(config)

    async def scenario() -> None:
        limits: dict[str, Any] = {
            "check_interval_s": 0.01,
            "max_silent_checks_loading": 1_000_000,
            "restart_delays_s": (60.0,),
        }
        async with running(engine_of(bundle, workers=2, launch=launch, **limits)) as engine:
            await until(lambda: engine.alive > 0)
            assert not engine.ready
            supervise(engine, max_silent_checks_loading=3)
            assert not await engine.wait_started()
            assert engine.ready
            assert engine.failure == "The workers have died: killed."

    numbers = count()
    asyncio.run(scenario())


def test_silence_while_loading_does_not_count_once_the_worker_decodes(bundle: LoadedBundle) -> None:
    """A worker may get work at once, and would be killed at the next check if it took long to load."""
    engine = engine_of(bundle)
    [slot] = engine._slots
    slot.silent_checks = engine.supervision.max_silent_checks + 1
    engine._on_message(slot, LoadResult("", 8, {bundle.name: "float32"}))
    assert (slot.state, slot.silent_checks) == ("working", 0)


def test_failed_workers_reason_is_reported_even_if_others_started(bundle: LoadedBundle) -> None:
    """As when bundles are replaced: all new workers end because one of them could not serve."""

    class Refusing:
        pid: int | None = None

        def __init__(self) -> None:
            self.end, theirs = socket.socketpair()
            with theirs:
                theirs.sendall(encode_frame(LoadResult("why")))

        def kill(self) -> None:
            pass

        def wait(self) -> str:
            return "ended with status 0"

    def launch(config: WorkerConfig) -> Worker:  # two at once
        return Refusing() if next(numbers) == 0 else InProcessWorker(config)

    async def scenario() -> None:
        engine = engine_of(bundle, workers=2, launch=launch, restart_delays_s=(60.0,))
        async with running(engine):
            assert not await engine.wait_started()
            await until(lambda: engine.alive == 1)
        assert engine.failure == "why"

    numbers = count()
    asyncio.run(scenario())


@pytest.mark.slow
def test_workers_that_die_together_are_all_started_again(bundle: LoadedBundle) -> None:
    """On uvloop, as in service, where writing to a closed connection raises."""
    workers: list[Worker] = []

    def launch(config: WorkerConfig) -> Worker:
        workers.append(InProcessWorker(config))
        return workers[-1]

    async def scenario() -> None:
        async with running(engine_of(bundle, workers=3, launch=launch, restart_delays_s=(0.0,))) as engine:
            await until(lambda: engine.alive == 3)
            tasks = [asyncio.create_task(request.decode(engine)) for request in requests]
            await until(lambda: engine.scheduler.is_busy(0))
            for worker in list(workers):
                worker.kill()
            await asyncio.gather(*tasks)
            await until(lambda: engine.alive == 3)

    requests = [asking(bundle, *(f"Hello {number} {k}." for k in range(15))) for number in range(6)]
    uvloop.run(scenario())
    assert [request.errors for request in requests] == [{}] * len(requests)
    expected = greedy_decode(bundle.model, sources_of(requests), bundle.limits)
    assert [tokens for request in requests for tokens in request.tokens] == [h.tokens for h in expected]


@pytest.mark.parametrize("starts", [True, False])
def test_requests_wait_for_the_only_worker_until_it_is_started_again_or_cannot_be(
    bundle: LoadedBundle, starts: bool
) -> None:
    workers: list[Worker] = []
    goes_on = threading.Event()

    def launch(config: WorkerConfig) -> Worker:
        if workers:
            assert goes_on.wait(WAIT_S)
            if not starts:
                raise OSError("no room")
        workers.append(InProcessWorker(config))
        return workers[-1]

    async def scenario() -> None:
        async with running(engine_of(bundle, launch=launch, restart_delays_s=(0.0, 60.0))) as engine:
            await until(lambda: engine.alive == 1)
            workers[0].kill()
            await until(lambda: engine.alive == 0)
            assert not engine.ready
            task = asyncio.create_task(request.decode(engine))
            await until(lambda: engine.scheduler.waiting > 0 or task.done())
            goes_on.set()
            await task
            if not starts:
                with pytest.raises(Unavailable, match="The workers have died"):
                    await asking(bundle, "Hello.").decode(engine)

    request = asking(bundle, "Hello.")
    asyncio.run(scenario())
    assert [type(error) for error in request.errors.values()] == ([] if starts else [Unavailable])


def sources_of(requests: list[Request]) -> list[list[int]]:
    return [list(sequence.source) for request in requests for sequence in request.sequences]


def test_wrong_sample_is_the_reason_given_in_every_refusal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(engine_of(bundle)) as engine:
            await early.decode(engine)
            assert not engine.ready
            with pytest.raises(Unavailable, match=r"'Hello\.' is not translated as on export"):
                await asking(bundle, "Hello.").decode(engine)

    sample = {"source": "Hello.", "target": "?", "source_ids": [40], "target_ids": [2]}
    bundle = load_bundle(make_bundle(tmp_path / "b", samples=[sample]), torch.device("cpu"))
    assert alone(bundle, "Hello.") != [2]
    early = asking(bundle, "Hello.")
    asyncio.run(scenario())
    assert [type(error) for error in early.errors.values()] == [Unavailable]


@pytest.mark.slow
def test_worker_process_ends_with_its_front_even_if_other_workers_live() -> None:
    """However the front ends, also by SIGKILL, its end of the socket is closed, and no other worker has inherited
    it."""
    workers = [WorkerProcess() for _ in range(2)]
    workers[0].end.close()
    assert workers[0].wait() == "ended with status 0"
    while not proportional_set_size(workers[1].pid) > 1e6:  # it has hardly any memory yet if it started slowly
        os.kill(workers[1].pid, 0)
    workers[1].end.close()
    assert workers[1].wait() == "ended with status 0"
    assert math.isnan(proportional_set_size(workers[1].pid))


@pytest.mark.slow
def test_workers_started_early_are_those_that_serve(bundle: LoadedBundle) -> None:
    """The first engine with their configuration gets them; later engines and restarts get others."""

    async def scenario(launch: EarlyWorkers) -> None:
        early = engine_of(bundle, workers=2, launch=launch, precision="auto")
        later = engine_of(bundle, bundle, launch=launch, precision="auto")
        launch.configure(early._config)
        async with running(later), running(early):
            await until(lambda: early.ready and later.ready)
            first = pids(early)
            assert pids(later).isdisjoint(first)
            assert first == started
            os.kill(next(iter(first)), signal.SIGKILL)
            await until(lambda: pids(early) != first and early.ready)
            assert len(pids(early) - started) == 1

    def pids(engine: Engine) -> set[int]:
        return {slot.worker.pid for slot in engine._slots if isinstance(slot.worker, WorkerProcess)}

    with EarlyWorkers(2) as launch:
        started = {worker.pid for worker in launch._left}
        asyncio.run(scenario(launch))


def test_waiting_request_reaches_a_worker_that_had_loaded_before_it_was_connected(bundle: LoadedBundle) -> None:
    """On uvloop, which reads the worker's message before it tells the engine of the connection."""

    def launch(config: WorkerConfig) -> Worker:
        worker = InProcessWorker(config)
        select.select([worker.end], [], [])
        return worker

    async def scenario() -> None:
        # No worker is found to hang, and so none is replaced.
        async with running(engine_of(bundle, launch=launch, check_interval_s=10 * WAIT_S)) as engine:
            async with asyncio.timeout(WAIT_S):
                await request.decode(engine)

    request = asking(bundle, "Hello.")
    uvloop.run(scenario())
    assert request.tokens == [alone(bundle, "Hello.")]


@pytest.mark.slow
def test_early_workers_that_nobody_takes_end(bundle: LoadedBundle) -> None:
    with EarlyWorkers(2) as launch:
        pids = [worker.pid for worker in launch._left]
        launch.configure(engine_of(bundle)._config)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_workers_killed_under_load_lose_no_request_and_repeat_no_response(bundle: LoadedBundle) -> None:
    """Two processes, SIGKILL to one and the other while 20 requests of 15 sentences are decoded. In int8, for which a
    process imports no PyTorch."""
    workers: list[WorkerProcess] = []

    def launch(config: WorkerConfig) -> Worker:
        workers.append(WorkerProcess(config))
        return workers[-1]

    def finished() -> int:
        return sum(len(request.answers) for request in requests)

    async def scenario() -> None:
        async with running(engine_of(bundle, rows=8, workers=2, launch=launch, precision="auto")) as engine:
            await until(lambda: engine.ready)
            engine.publish_metrics()
            value = engine.metrics.registry.get_sample_value
            assert all((value("interlinear_worker_memory_bytes", {"worker": number}) or 0) > 1e6 for number in "01")
            tasks = [asyncio.create_task(request.decode(engine)) for request in requests]
            for number, progress in ((0, 50), (1, 150)):
                await until(lambda: engine.alive > 0 and finished() >= progress)  # noqa: B023
                os.kill(workers[number].pid, signal.SIGKILL)
            await asyncio.gather(*tasks)
            assert engine.scheduler.is_empty

    requests = [asking(bundle, *(f"Hello {number} {k}." for k in range(15))) for number in range(20)]
    asyncio.run(scenario())
    assert [request.answered for request in requests] == [1] * len(requests)
    assert [request.errors for request in requests] == [{}] * len(requests)
    expected = [Hypothesis(source, bundle.limits.target(len(source))) for source in sources_of(requests)]
    decode_all(prepare(bundle.model, "auto").new_batch(8, bundle.limits), expected)
    assert [tokens for request in requests for tokens in request.tokens] == [h.tokens for h in expected]
    assert len(workers) > 2
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)
