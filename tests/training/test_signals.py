"""Ctrl-C and SIGTERM: a step is always finished and saved, and the message says how to resume."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from safetensors.torch import load_file
from shared_fixtures import TRAINING_LIMITS, small_config
from warm import WarmProcess

from model.tokenizer import Tokenizer
from training.data.batches import Batch
from training.launch import current_command
from training.optim.checkpoint import STATE, load_state, saved_weights
from training.optim.loop import State, train
from training.optim.trainer import Recipe, Trainer
from training.signals import Stopped, immediate_stop, stop_requests

ROOT = Path(__file__).resolve().parents[2]


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_training")]


def trained(data: Path, run: Path, trainer_type: type[Trainer] = Trainer) -> State:
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)
    recipe = Recipe(8, batch_tokens=300, warmup=4, evaluate_every=8)
    return train(
        data, run, config, recipe, torch.device("cpu"), TRAINING_LIMITS, save_every=1000, trainer_type=trainer_type
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_a_step_saves_that_step_and_resuming_changes_nothing(
    data: Path, tmp_path: Path, number: int
) -> None:
    trained(data, tmp_path / "whole")

    class Interrupted(Trainer):
        steps = 0

        def step(self, batches: Sequence[Batch], learning_rate: float) -> torch.Tensor:
            self.steps += 1
            if self.steps == 3:
                signal.raise_signal(number)
            return super().step(batches, learning_rate)

    with pytest.raises(Stopped) as stopped:
        trained(data, tmp_path / "run", Interrupted)
    assert (stopped.value.number, stopped.value.saved) == (number, True)
    saved = load_state(tmp_path / "run")
    assert saved is not None
    assert saved["state"]["step"] == 3
    trained(data, tmp_path / "run")
    ours, theirs = (load_file(saved_weights(tmp_path / run)[-1]) for run in ("run", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_signal_while_the_last_step_is_saved_skips_what_follows(data: Path, tmp_path: Path) -> None:
    class Interrupted(Trainer):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.optimizer.register_state_dict_pre_hook(lambda optimizer: signal.raise_signal(signal.SIGTERM))

    with pytest.raises(Stopped) as stopped:
        trained(data, tmp_path / "run", Interrupted)
    assert (stopped.value.number, stopped.value.saved) == (signal.SIGTERM, True)
    saved = load_state(tmp_path / "run")
    assert saved is not None
    assert saved["state"]["step"] == 8


def test_second_signal_ends_at_once() -> None:
    with stop_requests() as request:
        signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT
        with pytest.raises(Stopped) as stopped:
            signal.raise_signal(signal.SIGTERM)
    assert (stopped.value.number, stopped.value.saved) == (signal.SIGTERM, False)


def test_signal_is_handled_even_if_the_output_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a Ctrl-C that ended `tee` too."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as gone:
        monkeypatch.setattr(sys, "__stderr__", gone)
        with stop_requests() as request:
            signal.raise_signal(signal.SIGINT)
        assert request.number == signal.SIGINT


def test_without_a_signal_nothing_is_raised_and_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with immediate_stop(), stop_requests() as request:
        assert request.number is None
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_no_signals_are_handled_in_a_thread() -> None:
    found: list[int | None] = []

    def work() -> None:
        with stop_requests() as request:
            found.append(request.number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None]


def test_resume_command_quotes_the_path_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my checkout/.venv/bin/python"))
    assert shlex.split(current_command())[:3] == ["my checkout/.venv/bin/python", "-m", "training"]


Process = WarmProcess | subprocess.Popen[bytes]


def steps_saved(run: Path) -> int:
    saved = load_state(run) if run.exists() else None
    return saved["state"]["step"] if saved else 0


def test_an_interrupted_process_saves_and_prints_a_command_that_resumes(data: Path, tmp_path: Path) -> None:
    options = ["--steps", "100000", "--architecture", "d2l", "--device", "cpu", "--threads", "1"]
    every = ["--save-every", "5", "--evaluate-every", "100000"]
    out = tmp_path / "a run"
    command = ["training", "train", "--data", str(data), "--out", str(out), *options, *every]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    python = tmp_path / "bin" / "python"  # resumes in a process that has imported PyTorch
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(warm.__file__)} "$@"\n')
    python.chmod(0o755)
    done = 0
    said = tmp_path / "said.txt"
    start: type[Process] = WarmProcess
    for number, sign in ((signal.SIGINT, "training on cpu"), (signal.SIGTERM, "continuing at step")):
        with open(said, "wb") as file:
            process: Process = start(command, env=environment, cwd=tmp_path, stdout=file.fileno(), stderr=file.fileno())
        while process.poll() is None and steps_saved(out) <= done:
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait() == 128 + number, said.read_text()
        assert sign in said.read_text()
        *_, saying, last = said.read_text().rstrip("\n").split("\n")
        assert saying == "saved and stopped; to resume:"
        assert (out / STATE).exists()
        state = load_state(out)
        assert state is not None
        assert done < state["state"]["step"] < 100_000
        done = state["state"]["step"]
        command, start = ["sh", "-c", f"exec {last.strip()}"], subprocess.Popen
        environment["PATH"] = f"{python.parent}:{environment['PATH']}"
        environment[warm.VARIABLE] = warm.server_address()
