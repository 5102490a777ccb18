"""The command `run`: from a file to a bundle in one command, whatever interrupts it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from finished import finished
from safetensors.torch import load_file
from shared_fixtures import PAIRS, train_quickly
from typer.testing import CliRunner
from warm import WarmProcess

from model.bundle_weights import load_bundle
from training.__main__ import cli
from training.corpora.corpus import Pair, write_pairs
from training.data.dataset import PreparedSummary
from training.data.prepare import prepare_corpora
from training.file_lock import lock_output
from training.launch import serve_command
from training.optim.checkpoint import STATE
from training.optim.trainer import Trainer
from training.pipeline.plan import Timings

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
FEW = PAIRS[::4]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own_and_in_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_training: None, small_default_size: None
) -> None:
    monkeypatch.chdir(tmp_path)


def run(*options: object, pairs: list[Pair] = FEW, code: int = 0) -> str:
    if not Path("my.tsv").exists():
        write_pairs(Path("my.tsv"), pairs)
    command = ["run", "--pairs", "my.tsv", "--source", "en", "--target", "fr", "--out", "bundles/mine"]
    result = CliRunner().invoke(cli, [*command, "--device", "cpu", "--threads", "1", *map(str, options)])
    assert result.exit_code == code, result.output
    # The runner's own `output` has the two in the order of their flushing, which a terminal has not.
    return result.stdout + result.stderr if code else result.stderr + result.stdout


def finished_run() -> str:
    """`run()` in a folder that is still empty."""
    return finished("run", run)


def test_one_command_makes_a_bundle_and_prints_the_time_and_how_to_serve_it() -> None:
    output = run("--licence", "CC0-1.0", "--attribution", "me", "--remark", "Not for contracts.")
    assert "my.tsv: UTF-8" in output
    assert "the plan: architecture d2l" in output
    assert "in total, less if it stops improving" in output
    assert f"\nto serve it:\n  {serve_command(Path('bundles/mine'))}\n" in output
    bundle = load_bundle(Path("bundles/mine"), CPU)
    assert (bundle.pair, bundle.config["licence"], bundle.config["attribution"]) == ("en-fr", "CC0-1.0", ["me"])
    assert bundle.config["remarks"] == ["Not for contracts."]
    assert sorted(path.name for path in Path("runs/bundles-mine").iterdir()) == ["data", "plan.json", "run"]


def test_serve_command_names_the_python_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert serve_command(Path("b")) == f"INTERLINEAR_BUNDLES=b {python} -m app serve"
    monkeypatch.chdir(tmp_path)
    assert serve_command(Path("b")) == "INTERLINEAR_BUNDLES=b .venv/bin/python -m app serve"
    monkeypatch.setenv("PATH", str(python.parent))  # an activated environment
    assert serve_command(Path("b")) == "INTERLINEAR_BUNDLES=b python -m app serve"


def test_repeated_run_says_that_all_is_done_and_how_to_serve_it() -> None:
    finished_run()
    before = load_bundle(Path("bundles/mine"), CPU).name
    output = run("--replace")
    assert "nothing to do" in output
    assert "python -m app serve" in output
    assert load_bundle(Path("bundles/mine"), CPU).name == before


def test_changed_export_options_or_test_sets_make_the_bundle_again_without_training() -> None:
    write_pairs(Path("test.tsv"), PAIRS[:3])
    Path("r.toml").write_text('[export]\ndtype = "float32"\n')
    run("--test", "test.tsv")
    assert "nothing to do" in run("--test", "test.tsv", "--replace")
    write_pairs(Path("test.tsv"), PAIRS[3:6])
    two = ["--test", "test.tsv"], ["--test", "test.tsv", "--recipe", "r.toml"]
    for options in (*two, ["--recipe", "r.toml", "--remark", "Not for contracts."]):
        output = run(*options, "--replace")
        assert ("nothing to do" in output, "timing" in output) == (False, False)
        assert "nothing to do" in run(*options, "--replace")
    assert {weights.dtype for weights in load_file("bundles/mine/model.safetensors").values()} == {torch.float32}


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A machine whose clock, the only item, moves by three minutes while it prepares and by 20 s in each step: twice as
    much as planned."""
    clock, step = [0.0], Trainer.step

    def slow_preparing(*given: Any) -> PreparedSummary:
        clock[0] += 180
        return prepare_corpora(*given)

    def slow_step(trainer: Trainer, *given: Any) -> torch.Tensor:
        clock[0] += 20
        return step(trainer, *given)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("training.pipeline.run.prepare_corpora", slow_preparing)
    train_quickly(monkeypatch, lambda *_: Timings(10.0, 1.0, 0.001))
    monkeypatch.setattr(Trainer, "step", slow_step)
    return clock


def test_run_by_the_clock_prepares_trains_and_exports_within_its_minutes(slow_machine: list[float]) -> None:
    output = run("--architecture", "toy", "--minutes", "8")
    training = load_bundle(Path("bundles/mine"), CPU).config["training"]
    steps = training["steps"]
    assert f"the time is over after {steps} steps" in output
    assert 440 <= 180 + 20 * steps <= 480
    peak, rates = training["schedule"]["peak"], training["schedule"]["rates"]
    assert max(rate for *_, rate in rates) == pytest.approx(peak, rel=0.01)
    assert rates[-1][0] == steps and rates[-1][2] < peak / 4
    assert "Schedule: by the clock, 8 minutes" in Path("bundles/mine/README.md").read_text(encoding="utf-8")
    for options in (["--minutes", "8"], []):
        assert "nothing to do" in run("--architecture", "toy", *options, "--replace")
    slow_machine[0] += 1e6
    os.rename("bundles/mine", "elsewhere")
    run("--architecture", "toy", "--minutes", "0.0001")
    assert load_bundle(Path("bundles/mine"), CPU).config["training"]["steps"] == steps
    run("--architecture", "toy", "--minutes", "16", "--replace")
    longer = load_bundle(Path("bundles/mine"), CPU).config["training"]
    assert 920 <= 180 + 20 * longer["steps"] <= 960
    assert longer["recipe"]["minutes"] == 16
    assert "was started with the architecture toy" in run("--architecture", "tiny", "--replace", code=1)


def test_minutes_are_refused_for_a_run_that_was_started_without() -> None:
    finished_run()
    os.rename("bundles/mine", "elsewhere")
    last = run("--minutes", "5", code=1).rstrip().splitlines()[-1]
    assert last == "error: runs/bundles-mine was started without --minutes: leave it out, or give another --work"


def test_minutes_replace_what_a_recipe_counts_in_steps_and_evaluations() -> None:
    Path("r.toml").write_text("[training]\npatience = 9\nevaluate_every = 3\nsteps = 4\n")
    output = run("--recipe", "r.toml", "--minutes", "50")
    assert "50 minutes or 4 steps, whichever ends first" in output
    recipe = load_bundle(Path("bundles/mine"), CPU).config["training"]["recipe"]
    assert {name: recipe[name] for name in ("minutes", "steps", "patience", "evaluate_every", "keep")} == {
        "minutes": 50, "steps": 4, "patience": 0, "evaluate_every": 0, "keep": 1,
    }  # fmt: skip


def test_too_few_minutes_cause_a_warning_and_no_refusal() -> None:
    output = run("--minutes", "0.001")
    assert "warning: one step, its evaluation and the export seem to take" in output
    assert load_bundle(Path("bundles/mine"), CPU).config["training"]["steps"] == 1


def test_run_killed_after_training_or_preparing_does_only_the_rest() -> None:
    finished_run()
    whole = load_bundle(Path("bundles/mine"), CPU).name
    os.rename("bundles/mine", "elsewhere")
    assert "after the" in run()
    assert load_bundle(Path("bundles/mine"), CPU).name == whole
    os.rename("bundles/mine", "elsewhere2")
    os.rename("runs/bundles-mine/run", "elsewhere3")
    assert "timing" not in run()
    assert load_bundle(Path("bundles/mine"), CPU).name == whole


def test_an_existing_bundle_is_refused_before_any_work() -> None:
    finished_run()
    Path("more.tsv").write_text("Tom sleeps.\tTom dort.\n", encoding="utf-8")
    output = run("--pairs", "more.tsv", "--work", "work2", code=1)
    assert "--replace" in output
    assert not Path("work2").exists()


def test_an_unwritable_output_is_reported_before_any_work() -> None:
    Path("bundles").touch()
    assert "error: " in (said := run(code=1)).splitlines()[-1]
    assert "bundles" in said
    assert not Path("runs").exists()


def test_bundle_being_made_by_another_command_is_refused_before_any_work() -> None:
    with lock_output(Path("bundles/mine")):
        assert "another command is running on bundles/mine" in run(code=1)
    assert not Path("runs").exists()


def test_second_bundle_for_the_same_pair_causes_a_warning() -> None:
    assert "warning: bundles" not in finished_run()
    output = run("--out", "bundles/other", "--work", "runs/bundles-mine")
    assert "warning: bundles/mine translates in the same direction, and a service that loads bundles" in output
    assert "in the same direction" not in run("--out", "bundles/another", "--work", "work3", "--target", "de")


def test_changed_pairs_do_not_resume_a_run() -> None:
    finished_run()
    write_pairs(Path("my.tsv"), PAIRS[:200])
    assert "was started with other pairs" in run("--replace", code=1)
    assert "architecture d2l" in run("--replace", "--work", "work2")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda data: shutil.rmtree(data), "is not a data folder"),
        (lambda data: (data / "tokens-00000.bin").write_bytes(b""), "are missing or damaged"),
        (lambda data: (data / "lengths.npy").unlink(), "are missing or damaged"),
        (lambda data: (data / "prepared.json").write_text("{"), "is damaged"),
        (lambda data: (data / "prepared.json").write_text('{"format_version": 1}'), "has format 1, not 2"),
    ],
)
def test_missing_data_of_a_run_is_reported_as_such(harm: Callable[[Path], object], said: str) -> None:
    finished_run()
    harm(Path("runs/bundles-mine/data"))
    last = run("--replace", code=1).rstrip("\n").split("\n")[-1]
    assert last.startswith("error: runs/bundles-mine has lost the data that it was started with (")
    assert said in last
    assert "other pairs" not in last


def test_pairs_changed_before_training_are_prepared_and_planned_again() -> None:
    finished_run()
    os.remove(Path("runs/bundles-mine/run", STATE))
    plan = Path("runs/bundles-mine/plan.json").read_text()
    write_pairs(Path("my.tsv"), PAIRS[:40])
    run("--replace")
    assert Path("runs/bundles-mine/plan.json").read_text() != plan
    assert load_bundle(Path("bundles/mine"), CPU).config["training"]["corpora"][0]["pairs"] == 38


def test_more_patience_changes_no_other_part_of_the_plan() -> None:
    finished_run()
    plan = Path("runs/bundles-mine/plan.json")
    planned = json.loads(plan.read_text())
    planned["recipe"] |= {"steps": planned["recipe"]["steps"] + 3, "evaluate_every": 2}
    plan.write_text(json.dumps(planned))
    Path("r.toml").write_text("[training]\npatience = 9\nkeep = 4\n")
    run("--recipe", "r.toml", "--replace")
    went_on = json.loads(plan.read_text())["recipe"]
    assert went_on == planned["recipe"] | {"patience": 9, "keep": 4}
    Path("r.toml").write_text("[training]\npatience = 9\nkeep = 4\nepochs = 9\n")
    run("--recipe", "r.toml", "--replace")
    assert json.loads(plan.read_text())["recipe"]["steps"] > went_on["steps"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--minutes", "0"], "--minutes"),
        (["--architecture", "huge"], "--architecture must be one of"),
        (["--columns", "7,8"], "2 columns, not 8"),
        (["--source", "e n"], "not a language code"),
    ],
)
def test_invalid_options_are_reported_in_one_line(options: list[str], said: str) -> None:
    last = run(*options, code=1).rstrip("\n").split("\n")[-1]
    assert last.startswith("error: ")
    assert said in last


@pytest.mark.parametrize("count", [1, 2, 3])
def test_handful_of_pairs_works_or_is_refused_in_one_line(count: int) -> None:
    write_pairs(Path("my.tsv"), PAIRS[::7][:count])
    command = ["run", "--pairs", "my.tsv", "--source", "en", "--target", "fr", "--out", "bundles/mine"]
    result = CliRunner().invoke(cli, [*command, "--device", "cpu", "--threads", "1"])
    if result.exit_code:
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert result.stderr.split("\n")[-2].startswith("error: ")
        assert count < 3
    else:
        assert load_bundle(Path("bundles/mine"), CPU).pair == "en-fr"


def test_any_language_code_is_accepted() -> None:
    run("--source", "tlh", "--target", "zh-Hant-TW")
    assert load_bundle(Path("bundles/mine"), CPU).pair == "tlh-zh-Hant-TW"


def test_killed_command_ends_with_the_bundle_of_an_uninterrupted_one() -> None:
    finished_run()
    plan = json.loads(Path("runs/bundles-mine/plan.json").read_text())
    plan["recipe"] |= {"steps": 24, "evaluate_every": 8}
    plan["speed"]["step"] = 10.0  # so that it saves after every third step
    for name in ("whole", "killed"):
        os.makedirs(f"runs/bundles-{name}")
        Path(f"runs/bundles-{name}/plan.json").write_text(json.dumps(plan))
    run("--out", "bundles/whole")
    command = ["training", "run", "--pairs", "my.tsv", "--source", "en", "--target", "fr"]
    command += ["--device", "cpu", "--threads", "1", "--out", "bundles/killed"]
    for sign in ("data", f"run/{STATE}"):
        process = WarmProcess(command)
        while process.poll() is None and not Path("runs/bundles-killed", sign).exists():
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert "after the" in run("--out", "bundles/killed")
    ours, theirs = (load_bundle(Path("bundles", name), CPU) for name in ("killed", "whole"))
    assert ours.checksum == theirs.checksum
    assert ours.config["metrics"] == theirs.config["metrics"]
