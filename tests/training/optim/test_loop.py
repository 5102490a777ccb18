"""Whole runs: curves, early stopping, and that a run killed at any moment ends with the weights of an uninterrupted
one. Run as a program, this file is the process whose children are killed."""

from __future__ import annotations

import csv
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from shared_fixtures import FEW_TOKENS, small_config, train_quickly
from torch import Tensor
from typer.testing import CliRunner
from warm import run_warm

from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.__main__ import cli
from training.data.batches import Batch, Pairs
from training.optim import loop
from training.optim.checkpoint import BEST, STATE, load_state, save_state, saved_weights, step_of
from training.optim.distributed import ALONE, World
from training.optim.loop import PendingLosses, State, train
from training.optim.schedule import noam
from training.optim.trainer import Recipe, Trainer, TrainingError

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
BLEU_SENTENCES = 2
RECIPE = Recipe(12, batch_tokens=300, warmup=4, evaluate_every=3, keep=2)


def run_training(
    data: Path,
    run: Path,
    save_every: int = 5,
    world: World = ALONE,
    trainer_type: type[Trainer] = Trainer,
    initial: Mapping[str, Tensor] | None = None,
    **recipe: Any,
) -> State:
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)
    chosen = dataclasses.replace(RECIPE, **recipe)
    return train(data, run, config, chosen, CPU, FEW_TOKENS, save_every, initial, world, trainer_type=trainer_type)


def trainer_with(losses: Iterable[float]) -> type[Trainer]:
    """Trainers that measure the given development losses one after the other."""
    left = iter(losses)

    class Scripted(Trainer):
        def development_loss(self, pairs: Pairs) -> float:
            return next(left)

    return Scripted


def final_weights(run: Path) -> dict[str, Tensor]:
    return load_file(saved_weights(run)[-1])


def assert_same_weights(run: Path, other: Path) -> None:
    ours, theirs = final_weights(run), final_weights(other)
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.fixture(autouse=True)
def _one_thread_and_no_plots(quick_training: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loop, "BLEU_SENTENCES", BLEU_SENTENCES)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_losses_read_a_step_late_are_all_read(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = run_training(data, tmp_path / "run")
    monkeypatch.setattr(loop, "PendingLosses", lambda at_once: PendingLosses(at_once=False))
    late = run_training(data, tmp_path / "late")
    losses = [[row["train_loss"] for row in state.history] for state in (at_once, late)]
    assert losses[0] == losses[1]
    assert load_state(tmp_path / "late") is not None


def test_run_leaves_curves_state_and_last_and_best_weights(data: Path, tmp_path: Path) -> None:
    state = run_training(data, tmp_path / "run")
    with open(tmp_path / "run/log.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [3, 6, 9, 12]
    assert float(rows[-1]["dev_loss"]) < float(rows[0]["dev_loss"])
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])
    assert [step_of(path) for path in saved_weights(tmp_path / "run")] == [9, 12]
    assert state.best_loss == min(float(row["dev_loss"]) for row in rows)
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"curves.png", STATE, BEST}


def test_log_has_the_learning_rate_of_every_step_and_mean_losses_between_rows(data: Path, tmp_path: Path) -> None:
    seen, rates, draws = list[tuple[float, int]](), list[float](), list[tuple[int, int]]()

    class Recording(Trainer):
        def step(self, batches: Sequence[Batch], learning_rate: float) -> Tensor:
            nats = super().step(batches, learning_rate)
            seen.append((nats.item(), sum(batch.target_tokens for batch in batches)))
            rates.append(learning_rate)
            return nats

    class RecordingWorld(World):
        def seed(self, seed: int, step: int) -> None:
            draws.append((seed, step))

    rows = run_training(data, tmp_path / "run", world=RecordingWorld(), trainer_type=Recording, cooldown=0.5).history
    width = small_config(9).d_model
    assert rates == [noam(step, width, RECIPE.warmup, total=12, cooldown=0.5) for step in range(1, 13)]
    assert draws == [(RECIPE.seed, step) for step in range(1, 13)]
    sums = [[sum(each) for each in zip(*seen[first : first + 3], strict=True)] for first in range(0, 12, 3)]
    assert [row["train_loss"] for row in rows] == pytest.approx([nats / tokens for nats, tokens in sums])


def test_evaluating_more_often_changes_no_weight(data: Path, tmp_path: Path) -> None:
    run_training(data, tmp_path / "often", evaluate_every=2)
    run_training(data, tmp_path / "once", evaluate_every=12)
    assert_same_weights(tmp_path / "often", tmp_path / "once")


def test_resumed_run_equals_an_uninterrupted_one(data: Path, tmp_path: Path) -> None:
    run_training(data, tmp_path / "whole", cooldown=0.0)
    run_training(data, tmp_path / "parts", cooldown=0.0, steps=5)
    state = run_training(data, tmp_path / "parts", cooldown=0.0)
    assert state.step == 12
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("change", [{"bpe_dropout": 0.2}, {"r_drop": 5.0}, {"sampled_softmax": 20}])
def test_resumed_run_with_regularisation_equals_an_uninterrupted_one_and_no_other(
    data: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    short: dict[str, Any] = {"cooldown": 0.0, "evaluate_every": 10}
    run_training(data, tmp_path / "whole", steps=10, **short, **change)
    run_training(data, tmp_path / "parts", steps=4, **short, **change)
    run_training(data, tmp_path / "parts", steps=10, **short, **change)
    run_training(data, tmp_path / "plain", steps=10, **short)
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "whole", tmp_path / "plain")


def test_frozen_encoder_learns_once_its_share_of_the_steps_is_over(data: Path, tmp_path: Path) -> None:
    learns = list[bool]()

    class Recording(Trainer):
        def step(self, batches: Sequence[Batch], learning_rate: float) -> Tensor:
            learns.append(self.encoder_learns)
            return super().step(batches, learning_rate)

    begun = Transformer(small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)).state_dict()
    run_training(data, tmp_path / "run", trainer_type=Recording, initial=begun, freeze_encoder=0.5)
    assert learns == [False] * 6 + [True] * 6
    with pytest.raises(TrainingError, match="freeze_encoder needs initial weights"):
        run_training(data, tmp_path / "random", freeze_encoder=0.5)


def test_an_older_run_resumes_with_defaults_for_new_fields(data: Path, tmp_path: Path) -> None:
    run_training(data, tmp_path / "run", steps=5)
    snapshot = load_state(tmp_path / "run")
    assert snapshot is not None
    for part, name in (("recipe", "r_drop"), ("recipe", "bpe_dropout"), ("config", "positions")):
        del snapshot["identity"][part][name]
    save_state(tmp_path / "run", snapshot)
    with pytest.raises(TrainingError, match=r"another recipe \(r_drop\)"):
        run_training(data, tmp_path / "run", r_drop=1.0)
    assert run_training(data, tmp_path / "run", steps=6).step == 6


def test_a_finished_run_is_left_unchanged(data: Path, tmp_path: Path) -> None:
    run_training(data, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert run_training(data, tmp_path / "run").step == 12
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_training_stops_when_it_no_longer_improves(data: Path, tmp_path: Path) -> None:
    trainer = trainer_with([3.0, 2.0, 2.5, 2.0, 2.1, 1.0])
    state = run_training(data, tmp_path / "run", trainer_type=trainer, evaluate_every=2, patience=3)
    assert (state.step, state.best_step, state.best_loss) == (10, 4, 2.0)
    assert run_training(data, tmp_path / "run", trainer_type=trainer, evaluate_every=2, patience=3).step == 10


def test_patience_restarts_when_a_run_is_extended(data: Path, tmp_path: Path) -> None:
    trainer = trainer_with([3.0, 2.0, 2.5, 2.4, 2.3, 2.9, 2.8, 2.7, 2.75, 2.75, 2.75, 1.0])
    run = partial(run_training, data, tmp_path / "run", trainer_type=trainer, evaluate_every=2, patience=3)
    assert run().step == 10
    longer = run(steps=40)
    assert (longer.step, longer.best_step, longer.best_loss) == (22, 4, 2.0)
    assert run(steps=40).step == 22


def test_patience_does_not_count_the_initial_weights(data: Path, tmp_path: Path) -> None:
    trainer = trainer_with([1.0, 2.0, 1.9, 1.8, 1.7, 1.75, 1.75, 1.75, 0.5])
    begun = Transformer(small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size)).state_dict()
    run = tmp_path / "run"
    state = run_training(data, run, trainer_type=trainer, initial=begun, steps=24, evaluate_every=2, patience=3)
    assert (state.step, state.best_step, state.best_loss) == (14, 0, 1.0)


@pytest.fixture
def stopped_early(data: Path, tmp_path: Path) -> Path:
    """A run that stopped at step 6 of 12, after two evaluations without a better loss."""
    trainer = trainer_with([2.0, 2.1, 2.2])
    run_training(data, tmp_path / "run", trainer_type=trainer, evaluate_every=2, patience=2)
    return tmp_path / "run"


@pytest.mark.parametrize("change", [{}, {"keep": 9}, {"evaluate_every": 8}])
def test_early_stopped_run_says_so_again_and_keeps_the_recipe_it_is_resumed_with(
    data: Path, stopped_early: Path, capsys: pytest.CaptureFixture[str], change: dict[str, int]
) -> None:
    said = "stopped early: 2 evaluations without a better development loss\n"
    weights = final_weights(stopped_early)
    asked: dict[str, Any] = {"evaluate_every": 2, "patience": 2, **change}
    assert run_training(data, stopped_early, **asked).step == 6
    assert capsys.readouterr().err.endswith(said)
    snapshot = load_state(stopped_early)
    assert snapshot is not None
    assert snapshot["identity"]["recipe"] == dataclasses.asdict(dataclasses.replace(RECIPE, **asked))
    assert all(torch.equal(weights[name], final) for name, final in final_weights(stopped_early).items())


@pytest.mark.parametrize("patience", [3, 0])
def test_an_early_stopped_run_resumes_with_more_patience(data: Path, stopped_early: Path, patience: int) -> None:
    assert run_training(data, stopped_early, evaluate_every=2, patience=patience, steps=12).step > 6


def test_resuming_after_early_stopping_equals_an_uninterrupted_run(data: Path, stopped_early: Path) -> None:
    run_training(data, stopped_early, evaluate_every=2, patience=2, steps=12)
    state = run_training(data, stopped_early, evaluate_every=2, patience=0, steps=8)
    assert state.step == 8
    run_training(data, stopped_early.parent / "whole", evaluate_every=2, patience=0, steps=8)
    assert_same_weights(stopped_early.parent / "whole", stopped_early)


@pytest.mark.parametrize("change", [{"seed": 2}, {"batch_tokens": 200}, {"label_smoothing": 0.0}])
def test_changed_recipe_does_not_resume_a_run(data: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    run_training(data, tmp_path / "run", steps=5)
    with pytest.raises(TrainingError, match=f"another recipe \\({next(iter(change))}\\)"):
        run_training(data, tmp_path / "run", **change)


def test_changed_data_does_not_resume_a_run(data: Path, tmp_path: Path) -> None:
    run_training(data, tmp_path / "run", steps=5)
    shutil.copytree(data, tmp_path / "data")
    record = tmp_path / "data/prepared.json"
    record.write_text(record.read_text().replace('"seed": 1', '"seed": 2', 1))
    with pytest.raises(TrainingError, match="another data"):
        run_training(tmp_path / "data", tmp_path / "run")


@pytest.mark.parametrize("number", ["0", "-3"])
def test_save_interval_below_one_is_refused_in_one_line_before_any_work(
    data: Path, tmp_path: Path, number: str
) -> None:
    result = CliRunner().invoke(cli, [*command(data, tmp_path / "run"), "--save-every", number])
    assert result.exit_code == 1
    assert result.stderr == f"error: save_every must be at least 1, not {number}\n"
    assert not (tmp_path / "run").exists()


def test_leftover_weights_of_a_killed_run_are_not_averaged_with_those_of_the_next(data: Path, tmp_path: Path) -> None:
    run_training(data, tmp_path / "run", save_every=12, evaluate_every=2)
    (tmp_path / "run" / STATE).unlink()
    run_training(data, tmp_path / "run", seed=2)
    assert [step_of(path) for path in saved_weights(tmp_path / "run")] == [9, 12]


def test_no_weights_are_newer_than_the_saved_state(data: Path, tmp_path: Path) -> None:
    class Failing(Trainer):
        steps = 0

        def step(self, batches: Sequence[Batch], learning_rate: float) -> Tensor:
            self.steps += 1
            if self.steps == 9:
                raise MemoryError
            return super().step(batches, learning_rate)

    with pytest.raises(MemoryError):
        run_training(data, tmp_path / "run", save_every=5, trainer_type=Failing, evaluate_every=4)
    snapshot = load_state(tmp_path / "run")
    assert snapshot is not None
    assert (snapshot["state"]["step"], step_of(saved_weights(tmp_path / "run")[-1])) == (8, 8)


# ---- Killed


def command(data: Path, run: Path) -> list[str]:
    options = {
        "--data": data, "--out": run, "--steps": 24, "--evaluate-every": 8, "--save-every": 3, "--threads": 1,
        "--batch-tokens": 300, "--d-model": 16, "--num-heads": 2, "--d-ff": 32, "--encoder-layers": 1,
        "--decoder-layers": 1, "--device": "cpu", "--patience": 0, "--bpe-dropout": 0.1,
    }  # fmt: skip
    return ["train", *(str(part) for option in options.items() for part in option)]


def in_a_warm_process(function: str, data: Path, run: Path) -> subprocess.CompletedProcess[str]:
    """Calls a function of this file in a process whose children need not import."""
    return run_warm(["test_loop", function, str(data), str(run)], cwd=Path(__file__).parent)


def test_repeatedly_killed_command_ends_with_the_same_weights(data: Path, tmp_path: Path) -> None:
    done = in_a_warm_process("kill_command_twice", data, tmp_path / "killed")
    assert done.returncode == 0, done.stderr
    snapshot = load_state(tmp_path / "killed")
    assert snapshot is not None
    assert 13 <= snapshot["state"]["step"] < 24
    last = CliRunner().invoke(cli, command(data, tmp_path / "killed"))
    assert last.exit_code == 0
    assert "continuing at step" in last.stderr
    assert "python -m training export" in last.stdout
    assert CliRunner().invoke(cli, command(data, tmp_path / "whole")).exit_code == 0
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    ours, theirs = load_state(tmp_path / "killed"), load_state(tmp_path / "whole")
    assert ours is not None
    assert theirs is not None
    assert [without_time(row) for row in ours["state"]["history"]] == [
        without_time(row) for row in theirs["state"]["history"]
    ]


def kill_command_twice(data: Path, run: Path) -> None:
    """In a separate process: trains by the command in two children, the second of which resumes, and kills both."""
    train_quickly(pytest.MonkeyPatch())
    loop.BLEU_SENTENCES = BLEU_SENTENCES
    torch.set_num_threads(1)
    for after in (3, 13):
        child = os.fork()
        if child == 0:
            try:
                slow_down(after + 2)
                cli(command(data, run))
            finally:
                os._exit(1)
        wait_for_step(child, run, after)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL


def slow_down(after: int) -> None:
    """Makes each step after the first `after` take long, so that the command is still busy when it is killed."""
    step, left = Trainer.step, iter(range(after))

    def slow(trainer: Trainer, *given: Any) -> torch.Tensor:
        if next(left, None) is None:
            time.sleep(0.5)
        return step(trainer, *given)

    Trainer.step = slow  # type: ignore[assignment, method-assign]


def wait_for_step(child: int, run: Path, step: int) -> None:
    """Waits until the state on disk is at `step` or later; the process must still be running."""
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        snapshot = load_state(run) if run.exists() else None
        if snapshot and snapshot["state"]["step"] >= step:
            return
        time.sleep(0.01)
    pytest.fail("the process ended before it could be killed")


def without_time(row: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in ("tokens_per_second", "seconds")}


def kill_at_every_moment(data: Path, run: Path) -> None:
    """In a separate process: trains in children that resume where the last was killed. Each kills itself just before a
    later file operation. Prints the number of killed children."""
    train_quickly(pytest.MonkeyPatch())
    loop.BLEU_SENTENCES = BLEU_SENTENCES
    torch.set_num_threads(1)
    for moment in range(200):
        child = os.fork()
        if child == 0:
            kill_before(3 * moment % 22, run)
            run_training(data, run)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            print(moment)
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
    raise AssertionError("no end")


def kill_before(moment: int, run: Path) -> None:
    """Makes this process kill itself just before its operation with that number, from 0, that changes a file in
    `run`."""
    left = moment

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        changes = event in ("os.rename", "os.remove") or (event == "open" and "w" in str(arguments[1]))
        if changes and str(arguments[0]).startswith(str(run)):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(on_event)


def test_run_killed_before_any_file_operation_ends_with_the_same_weights(data: Path, tmp_path: Path) -> None:
    done = in_a_warm_process("kill_at_every_moment", data, tmp_path / "killed")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5
    run_training(data, tmp_path / "whole")
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    assert [path.name for path in saved_weights(tmp_path / "killed")] == [
        path.name for path in saved_weights(tmp_path / "whole")
    ]


if __name__ == "__main__":
    {"kill_command_twice": kill_command_twice, "kill_at_every_moment": kill_at_every_moment}[sys.argv[1]](
        *map(Path, sys.argv[2:])
    )
