"""A worker's turns: a sentence that breaks a step fails alone, and every other gets the result it would have alone."""

from __future__ import annotations

import json
import math
import random
import shutil
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from servers import WAIT_S
from shared_fixtures import decode_with, make_bundle

from app.engine.executor import BundleExecutor, DecodingTask
from app.engine.ipc import FROM_FRONT, FROM_WORKER, FrameDecoder, FrontConnection
from app.engine.launch import WorkerProcess
from app.engine.messages import Assignments, LoadResult, Result, Step, StepReport, Task, ToFront, ToWorker, WorkerConfig
from app.engine.sequence import Decoded, Sequence
from app.engine.waiting_queue import FURTHER
from app.engine.worker import MAX_REPORT_INTERVAL_S, Models, WorkerLoop, is_due, work
from app.runtime.frames import encode_frame
from model.bundle_weights import LoadedBundle, load_bundle
from model.config import ModelConfig
from model.decoding import greedy_decode
from model.decoding.batch import Batch, DecodeBatch
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.model_spec import ModelSpec, Sample

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


class Faulty(DecodeBatch):
    """Fails in a step or an admission of certain sentences."""

    broken: Callable[[list[Hypothesis]], bool]
    in_step = True

    def admit(self, hypotheses: Iterable[Hypothesis]) -> None:
        hypotheses = list(hypotheses)
        if not self.in_step and self.broken([*self.running, *hypotheses]):
            raise RuntimeError("an admission failed")
        super().admit(hypotheses)

    def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
        if self.in_step and self.broken(self.running):
            raise RuntimeError("a step failed")
        return super().step(most, enough)


def faulty(broken: Callable[[list[Hypothesis]], bool], in_step: bool = True) -> type[Faulty]:
    return type("Broken", (Faulty,), {"broken": staticmethod(broken), "in_step": in_step})


def has(poison: list[int], at: int = 0) -> Callable[[list[Hypothesis]], bool]:
    """Whether `poison` is in the batch and has reached step `at`."""
    return lambda running: any(h.source == poison and len(h.tokens) >= at for h in running)


def executor(
    bundle: LoadedBundle, rows: int = 8, executor_type: type[BundleExecutor] = BundleExecutor
) -> BundleExecutor:
    return executor_type(TorchBackend(bundle.model), bundle.spec, rows)


def tasks(bundle: LoadedBundle, count: int, first: int = 0) -> list[DecodingTask]:
    sources = [bundle.source_tokenizer.encode(f"Hello {number}.") for number in range(first, first + count)]
    return [
        DecodingTask(n, Hypothesis(ids, bundle.limits.target(len(ids))), FURTHER)
        for n, ids in enumerate(sources, first)
    ]


def turns(executor: BundleExecutor) -> tuple[list[DecodingTask], list[DecodingTask], int]:
    """Takes turns until nothing is left. Returns the finished, the failed, and the number of turns."""
    finished: list[DecodingTask] = []
    failed: list[DecodingTask] = []
    count = 0
    while executor.busy:
        done, broken = executor.step()
        finished += done
        failed += broken
        count += 1
        assert count < 5_000
    return finished, failed, count


@pytest.fixture(scope="module")
def alone(bundle: LoadedBundle) -> dict[int, Hypothesis]:
    """The result of each of the first `tasks` without any failure."""
    everybody = tasks(bundle, 20)
    return dict(enumerate(greedy_decode(bundle.model, [task.source for task in everybody], bundle.limits)))


def are_as_alone(tasks: list[DecodingTask], alone: dict[int, Hypothesis]) -> None:
    for task in tasks:
        assert task.hypothesis.tokens == alone[task.number].tokens
        assert task.hypothesis.log_probs == pytest.approx(alone[task.number].log_probs, abs=1e-5)


@pytest.mark.slow
def test_slow_steps_are_reported_before_they_are_many() -> None:
    now, step = perf_counter(), StepReport(steps=[Step("m", 1, 1.0)])
    assert is_due(step, now - MAX_REPORT_INTERVAL_S, has_waiting=True)
    assert not is_due(step, now + 60, has_waiting=True)
    assert not is_due(StepReport(), now - 60, has_waiting=True)
    assert is_due(StepReport(steps=64 * step.steps), now + 60, has_waiting=True)


@pytest.mark.parametrize("in_step", [True, False])
@pytest.mark.parametrize("place", [0, 5, 12])
def test_sentence_that_causes_a_failure_fails_alone(
    bundle: LoadedBundle, alone: dict[int, Hypothesis], monkeypatch: pytest.MonkeyPatch, place: int, in_step: bool
) -> None:
    everybody = tasks(bundle, 13)
    poison = list(everybody[place].source)
    decode_with(faulty(has(poison, at=2 if in_step else 0), in_step), monkeypatch)
    one = executor(bundle)
    for task in everybody:
        one.add(task)
    finished, failed, _ = turns(one)
    assert [task.number for task in failed] == [place]
    assert {task.number for task in finished} == set(range(13)) - {place}
    are_as_alone(finished, alone)


def test_sentences_that_fail_together_are_split_into_parts(
    bundle: LoadedBundle, alone: dict[int, Hypothesis], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode_with(faulty(lambda running: len(running) > 3), monkeypatch)
    one = executor(bundle)
    for task in tasks(bundle, 8):
        one.add(task)
    finished, failed, _ = turns(one)
    assert (len(finished), failed) == (8, [])
    are_as_alone(finished, alone)


def test_a_failed_batch_is_freed_before_a_new_one_is_allocated(
    bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If memory ran out, there is no room for two batches."""
    decode_with(faulty(lambda running: len(running) > 3), monkeypatch)
    made, left = list[weakref.ref[object]](), list[int]()

    class Watched(BundleExecutor):
        def new_batch(self) -> Batch:
            left.append(sum(batch() is not None for batch in made))
            batch = super().new_batch()
            made.append(weakref.ref(batch))
            return batch

    one = executor(bundle, executor_type=Watched)
    for task in tasks(bundle, 8):
        one.add(task)
    assert len(turns(one)[0]) == 8
    assert len(left) > 1
    assert not any(left)


def test_sentence_with_non_finite_numbers_fails_alone(
    bundle: LoadedBundle, alone: dict[int, Hypothesis], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Poisoned(DecodeBatch):
        """A sentence that joins after the poison gets NaN too, as from stale memory in its row that is masked with
        0."""

        spoilt = False

        def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
            finished = super().step(most, enough)
            broken = [
                h
                for h in self.running
                if (h.source == poison and len(h.tokens) == 3) or (self.spoilt and len(h.tokens) == 1)
            ]
            for hypothesis in broken:
                hypothesis.log_probs[-1], hypothesis.finish_reason, self.spoilt = math.nan, "length", True
            return finished + self.remove(broken)

    decode_with(Poisoned, monkeypatch)
    everybody = tasks(bundle, 20)
    poison = list(everybody[4].source)
    one = executor(bundle, rows=6)
    for task in everybody:
        one.add(task)
    finished, failed, _ = turns(one)
    assert [task.number for task in failed] == [4]
    assert len(finished) == 19
    are_as_alone(finished, alone)


def test_failing_sentence_is_found_in_few_extra_turns(bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(batch: type[DecodeBatch]) -> int:
        decode_with(batch, monkeypatch)
        one = executor(bundle, rows=16)
        for task in tasks(bundle, 16):
            one.add(task)
        return turns(one)[2]

    poison = list(tasks(bundle, 16)[7].source)
    assert count(faulty(has(poison, at=1))) <= 6 * count(DecodeBatch)


@pytest.mark.slow
@draw_examples(15)
@given(
    guilty=st.sets(st.integers(0, 11), max_size=3),
    at=st.integers(0, 3),
    in_step=st.booleans(),
    crowd=st.integers(2, 8),
    seed=st.integers(0, 1_000),
)
def test_every_other_sentence_is_answered_once_whatever_fails_or_is_cancelled(
    bundle: LoadedBundle, alone: dict[int, Hypothesis], guilty: set[int], at: int, in_step: bool, crowd: int, seed: int
) -> None:
    chance, everybody = random.Random(seed), tasks(bundle, 12)
    poisons = [list(everybody[number].source) for number in guilty]
    broken = faulty(
        lambda running: len(running) > crowd or any(has(p, at * in_step)(running) for p in poisons), in_step
    )
    with pytest.MonkeyPatch.context() as patch:
        decode_with(broken, patch)
        one = executor(bundle, rows=6)
        arriving, there = list(everybody), dict[int, DecodingTask]()
        finished, failed, left = [], [], set()
        while arriving or one.busy:
            for _ in range(chance.randint(0, 4)):
                if arriving:
                    task = arriving.pop()
                    one.add(task)
                    there[task.number] = task
            if there and chance.random() < 0.15:
                number = chance.choice(sorted(there))
                one.remove(there.pop(number))
                left.add(number)
            done, wrong = one.step()
            for task in (*done, *wrong):
                del there[task.number]
            finished += done
            failed += wrong
    numbers = sorted([*(task.number for task in (*finished, *failed)), *left])
    assert numbers == list(range(12))
    assert all(list(task.source) in poisons for task in failed)
    are_as_alone(finished, alone)


def test_steps_that_a_batch_takes_at_once_are_reported_one_by_one(
    bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The front counts a token for each sentence of a step."""

    class Several(DecodeBatch):
        def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
            finished, steps = list[Hypothesis](), list[int]()
            while self.running and len(steps) < most:
                finished += super().step()
                steps += self.steps
            self.steps = steps
            return finished

    decode_with(Several, monkeypatch)
    models = Models(config(bundle))
    loop, report = WorkerLoop(models), StepReport()
    texts = ["Hello.", "How are you today?"]
    sequences = [Sequence(bundle.name, tuple(bundle.source_tokenizer.encode(text)), 30) for text in texts]
    loop.accept(Assignments([Task(number, FURTHER, one) for number, one in enumerate(sequences)], []))
    while loop.busy:
        loop.step(report)
    lengths = sorted(len(result.decoded.tokens) for result in report.results)
    assert [step.rows for step in report.steps] == [2] * lengths[0] + [1] * (lengths[1] - lengths[0])
    assert report.steps[0] == report.steps[1]


def test_worker_ends_if_every_batch_fails(bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would fail every sentence, which another process could decode."""
    decode_with(faulty(lambda running: True), monkeypatch)
    one = executor(bundle)
    one.spec = replace(one.spec, samples=(Sample("a", (40,), (2,)),))
    one.add(tasks(bundle, 1)[0])
    with pytest.raises(RuntimeError, match="a step failed"):
        one.step()


class Front:
    """The front's end of a worker that runs in a thread."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(WAIT_S)
        self._frame_decoder = FrameDecoder(FROM_WORKER)
        self.thread = threading.Thread(target=self._work, args=(theirs,), daemon=True)
        self.thread.start()

    def _work(self, end: socket.socket) -> None:
        with end:
            work(FrontConnection(end))

    def ask(self, message: ToWorker) -> list[ToFront]:
        """The next messages."""
        self.ours.sendall(encode_frame(message))
        while not (messages := list(self._frame_decoder.add(self.ours.recv(1 << 16)))):
            pass
        return messages

    def close(self) -> None:
        self.ours.close()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()


def config(bundle: LoadedBundle, name: str | None = None, precision: str = "float32") -> WorkerConfig:
    spec = replace(bundle.spec, name=name or bundle.name)
    return WorkerConfig([spec], "cpu", precision, threads=0, rows=4)


def weight_bytes(bundle: LoadedBundle) -> dict[str, int]:
    return {bundle.name: sum(parameter.nbytes for parameter in bundle.model.parameters())}


def refusal(front: Front, config: WorkerConfig) -> str:
    [result] = front.ask(config)
    assert isinstance(result, LoadResult)
    return result.failure


def test_worker_reports_what_it_has_loaded_and_ends_with_the_front(bundle: LoadedBundle) -> None:
    front = Front()
    assert front.ask(config(bundle)) == [LoadResult("", 4, {bundle.name: "float32"}, weight_bytes(bundle))]
    front.close()


def test_bundle_replaced_since_the_front_read_it_is_not_served(bundle: LoadedBundle) -> None:
    front = Front()
    failure = refusal(front, config(bundle, name="en-fr@000000000000"))
    assert "was en-fr@000000000000 when the service read it" in failure
    front.close()


@pytest.mark.slow
def test_worker_process_logs_json_like_the_front(bundle: LoadedBundle, capfd: pytest.CaptureFixture[str]) -> None:
    worker = WorkerProcess(config(bundle, name="en-fr@000000000000"))
    with worker.end:
        assert worker.wait() == "ended with status 0"
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["level"], line["process"]) for line in lines] == [("critical", worker.pid)]
    assert "was en-fr@000000000000 when the service read it" in lines[0]["message"]


def test_an_unavailable_precision_is_reported(bundle: LoadedBundle) -> None:
    front = Front()
    failure = refusal(front, config(bundle, precision="float16"))
    assert "float16" in failure
    front.close()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("CUDA error: out of memory\nCompile with"), "CUDA error: out of memory"),
        (MemoryError(), "MemoryError()"),
    ],
)
def test_every_failure_to_load_is_reported_in_one_line(
    bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setattr("app.engine.worker.load_backend", fail)
    front = Front()
    assert front.ask(config(bundle)) == [LoadResult(said)]
    front.close()


def test_a_wrong_sample_is_reported(tmp_path: Path) -> None:
    sample = {"source": "Hello.", "target": "?", "source_ids": [40], "target_ids": [2]}
    wrong = load_bundle(make_bundle(tmp_path / "b", samples=[sample]), CPU)
    front = Front()
    failure = refusal(front, config(wrong))
    assert "'Hello.' is not translated as on export" in failure
    front.close()


def test_worker_ends_with_the_front_even_while_it_decodes(bundle: LoadedBundle) -> None:
    front = Front()
    front.ask(config(bundle))
    sequence = Sequence(bundle.name, tuple(bundle.source_tokenizer.encode("Hello.")), 30)
    front.ours.sendall(encode_frame(Assignments([Task(number, FURTHER, sequence) for number in range(500)], [])))
    front.close()


def result_of(messages: list[ToFront]) -> Result:
    [report] = messages
    assert isinstance(report, StepReport)
    [result] = report.results
    return result


def test_under_a_memory_limit_a_model_loads_for_its_first_task_and_leaves_when_told(bundle: LoadedBundle) -> None:
    sequence = Sequence(bundle.name, tuple(bundle.source_tokenizer.encode("Hello.")), 30)
    front = Front()
    loaded = front.ask(msgspec.structs.replace(config(bundle), memory_bytes=10**9))
    assert loaded == [LoadResult("", 4, {bundle.name: "float32"}, weight_bytes(bundle))]
    first = result_of(front.ask(Assignments([Task(0, FURTHER, sequence)], [])))
    # In one message: the model leaves first, and is loaded again for the task.
    second = result_of(front.ask(Assignments([Task(1, FURTHER, sequence)], [], [bundle.name])))
    assert (first.decoded, second.number) == (second.decoded, 1)
    front.close()


def test_a_task_whose_bundle_has_gone_fails_and_the_worker_goes_on(bundle: LoadedBundle, tmp_path: Path) -> None:
    folder = shutil.copytree(bundle.folder, tmp_path / "en-fr")
    spec = replace(bundle.spec, folder=str(folder))
    sequence = Sequence(bundle.name, tuple(bundle.source_tokenizer.encode("Hello.")), 30)
    front = Front()
    front.ask(msgspec.structs.replace(config(bundle), models=[spec], memory_bytes=10**9))
    away = folder.rename(tmp_path / "away")
    assert front.ask(Assignments([Task(0, FURTHER, sequence)], [])) == [StepReport(failures=[0])]
    away.rename(folder)
    assert result_of(front.ask(Assignments([Task(1, FURTHER, sequence)], []))).number == 1
    front.close()


def test_a_model_larger_than_the_limit_is_reported(bundle: LoadedBundle) -> None:
    front = Front()
    failure = refusal(front, msgspec.structs.replace(config(bundle), memory_bytes=1000))
    assert failure.startswith(f"{bundle.name} takes ")
    assert failure.endswith("more than INTERLINEAR_MEMORY_BYTES=1000")
    front.close()


ids = st.lists(st.integers(0, 1 << 20), max_size=9).map(tuple)
sequences = st.builds(
    Sequence,
    st.text(),
    ids,
    st.integers(0, 300),
    st.none() | ids,
    ids,
    ids,
    st.integers(1, 9),
    ids,
    st.booleans(),
)
counts = st.integers(0, 999)
floats = st.lists(st.floats(allow_nan=False), max_size=9).map(tuple)
decoded = st.builds(Decoded, ids, floats, st.sampled_from(["stop", "length"]), ids, floats)


samples = st.lists(st.builds(Sample, st.text(), ids, ids), max_size=2).map(tuple)
architectures = st.builds(
    ModelConfig,
    counts.map(lambda n: n + 3),
    st.just(3),
    norm=st.sampled_from(["pre", "post"]),
    share_embeddings=st.just("decoder"),
    dropout=st.sampled_from([0.0, 0.1]),
)
specs = st.builds(
    ModelSpec,
    st.text(),
    st.text(),
    st.text(),
    architectures,
    st.builds(Limits, ratio=st.sampled_from([1.5, 2])),
    samples,
)


@given(
    st.lists(
        st.builds(
            WorkerConfig,
            st.lists(specs, max_size=2),
            st.text(),
            st.text(),
            st.integers(0, 9),
            st.integers(0, 999),
        )
        | st.builds(
            Assignments,
            st.lists(st.builds(Task, st.integers(0, 1 << 40), st.integers(0, 2), sequences), max_size=3),
            st.lists(st.integers(0, 1 << 40)),
        ),
        max_size=6,
    ),
    st.integers(1, 40),
)
@draw_examples(40)
def test_messages_survive_any_fragmentation(messages: list[ToWorker], size: int) -> None:
    stream = b"".join(map(encode_frame, messages))
    decoder = FrameDecoder(FROM_FRONT)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [message for piece in pieces for message in decoder.add(piece)] == messages


@given(
    st.builds(StepReport, st.lists(st.builds(Result, st.integers(0, 1 << 40), st.floats(0, 9), decoded), max_size=3))
)
def test_workers_reports_arrive_bit_for_bit(report: StepReport) -> None:
    assert list(FrameDecoder(FROM_WORKER).add(encode_frame(report))) == [report]


def test_invalid_messages_are_rejected() -> None:
    with pytest.raises(msgspec.ValidationError):
        list(FrameDecoder(FROM_WORKER).add(encode_frame(Assignments([], []))))


def test_a_worker_does_without_asyncio() -> None:
    """It takes 2 MiB of each."""
    program = "import sys, app.engine.worker; print('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"False\n"
