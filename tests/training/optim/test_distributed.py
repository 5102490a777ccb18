"""Several processes that train one model take the same steps as one, and start, stop and die together.

Run as a program, this file trains in forked processes, as often as it is told to: see `in_processes`.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from shared_fixtures import TRAINING_LIMITS, small_config
from typer.testing import CliRunner
from warm import WarmProcess, run_warm

from benchmarks.ports import free_port
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.__main__ import cli
from training.data.batches import epoch_rows, load_pairs
from training.file_lock import lock_folder
from training.optim import loop, progress
from training.optim.checkpoint import load_state, saved_weights
from training.optim.clock import Clock
from training.optim.distributed import World, joined
from training.optim.loop import State, train
from training.optim.trainer import Recipe, Trainer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
# torchrun, whose workers are forked from it, which has imported what they need.
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--start-method", "fork", "--run-path"]
TORCHRUN.append(str(ROOT / "training/__main__.py"))

# Batches of one pair or a few: then some processes have nothing to predict.
RECIPE: dict[str, Any] = {
    "steps": 6, "batch_tokens": 30, "accumulate": 2, "warmup": 20, "learning_rate_factor": 0.5, "evaluate_every": 1,
    "precision": "float32",
}  # fmt: skip


def run_training(data: Path, run: Path, dropout: float = 0.0, **recipe: Any) -> State:
    """Trains in this process, or in all processes started."""
    vocab_size = Tokenizer.load(data / "sentencepiece.model").vocab_size
    # Without biases: that of the keys has no gradient but rounding, which Adam makes as large as any.
    config = small_config(vocab_size, dropout=dropout, attention_bias=False)
    with joined(torch.device("cpu")) as world:
        # Each look at the clock moves it on, by another time in each process.
        clock = Clock(0.0, itertools.count(0.0, 1.0 + 2 * world.rank).__next__)
        chosen, limits = Recipe(**RECIPE | recipe), TRAINING_LIMITS
        torch.manual_seed(2)
        initial = Transformer(config).state_dict() if chosen.freeze_encoder else None
        state = train(data, run, config, chosen, world.device, limits, 4, initial, world, clock)
        if "minutes" in recipe:
            (run / f"time-{world.rank}.json").write_text(json.dumps(dataclasses.asdict(state.time)), encoding="utf-8")
        return state


# ---- Forked


def in_processes(calls: list[tuple[int, list[str], dict[str, Any]]]) -> None:
    """Makes each call in the number of processes that it names, one call after the other; prints their exit codes."""
    progress.draw_curves = lambda history: b"plot"
    loop.BLEU_SENTENCES = 1
    torch.set_num_threads(1)
    for count, arguments, options in calls:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        children = [forked(rank, count, address, arguments, options) for rank in range(count)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


def forked(rank: int, count: int, address: dict[str, str], arguments: list[str], options: dict[str, Any]) -> int:
    """A child that is process `rank` of `count` and makes the call: of the command line, or with options of
    `run_training`."""
    if child := os.fork():
        return child
    os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count))
    if rank == 1 and "interrupted" in options:
        interrupt_in_step(options["interrupted"])
    sys.argv[1:] = arguments
    code = 0
    try:
        if arguments[0] == "train":
            code = cli(arguments, standalone_mode=False) or 0
        else:
            run_training(Path(arguments[2 if rank and arguments[2:] else 0]), Path(arguments[1]), **options)
    except ValueError as error:
        print(f"process {rank}: {error}", file=sys.stderr)
        code = 1
    sys.stderr.flush()
    os._exit(code)


def interrupt_in_step(number: int) -> None:
    """Sends Ctrl-C to this process in the step with that number."""
    step, left = Trainer.step, iter(range(number))

    def interrupted(trainer: Trainer, *arguments: Any) -> torch.Tensor:
        if next(left, None) == number - 1:
            signal.raise_signal(signal.SIGINT)
        return step(trainer, *arguments)

    Trainer.step = interrupted  # type: ignore[assignment, method-assign]


def call(*calls: tuple[int, list[object], dict[str, Any]]) -> tuple[list[list[int]], str]:
    """The exit codes of each call's processes, and their output; see `in_processes`."""
    program = ["test_distributed", json.dumps(calls, default=str)]
    done = run_warm(program, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")], done.stderr


def curve(run: Path) -> list[dict[str, float]]:
    with open(run / "log.csv", encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def assert_same_losses(run: Path, other: Path) -> None:
    ours, theirs = curve(run), curve(other)
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for name in ("epoch", "train_loss", "dev_loss"):
        assert [row[name] for row in ours] == pytest.approx([row[name] for row in theirs], abs=1e-5, nan_ok=True), name


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]], str]:
    """Folders of runs with one, two and three processes, and of one that used each number in turn."""
    folder, other = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("other") / "data"
    subprocess.run(["cp", "-r", data, other], check=True)
    record = (other / "prepared.json").read_text(encoding="utf-8")
    (other / "prepared.json").write_text(record.replace('"seed": 1', '"seed": 2', 1), encoding="utf-8")
    codes, said = call(
        (1, [data, folder / "one"], {}),
        (2, [data, folder / "two"], {}),
        (3, [data, folder / "three"], {}),
        (1, [data, folder / "turns"], {"steps": 2}),
        (3, [data, folder / "turns"], {"steps": 4}),
        (2, [data, folder / "turns"], {}),
        (2, [data, folder / "stopped"], {"learning_rate_factor": 1e-30, "patience": 2, "dropout": 0.1}),
        (2, [data, folder / "differ", other], {}),
        (1, [data, folder / "regularised"], {"steps": 3, "bpe_dropout": 0.3, "r_drop": 5.0}),
        (2, [data, folder / "regularised by two"], {"steps": 3, "bpe_dropout": 0.3, "r_drop": 5.0}),
        (2, [data, folder / "clock"], {"minutes": 0.6, "steps": 0, "warmup": 3, "cooldown": 0.7, "evaluate_every": 0}),
        (1, [data, folder / "frozen"], {"steps": 4, "freeze_encoder": 0.5}),
        (2, [data, folder / "frozen by two"], {"steps": 4, "freeze_encoder": 0.5}),
    )
    return folder, codes, said


def test_several_processes_have_the_losses_of_one(data: Path, runs: tuple[Path, list[list[int]], str]) -> None:
    folder, codes, _ = runs
    sizes = [len(rows) for rows in epoch_rows(load_pairs(data)[0], RECIPE["batch_tokens"], 1, 0)]
    assert {1, 2} <= {*sizes[: RECIPE["steps"] * RECIPE["accumulate"]]}
    assert codes[:3] == [[0], [0, 0], [0, 0, 0]]
    assert len(curve(folder / "one")) == 6
    assert_same_losses(folder / "one", folder / "two")
    assert_same_losses(folder / "one", folder / "three")


def test_run_resumes_with_any_number_of_processes(runs: tuple[Path, list[list[int]], str]) -> None:
    folder, codes, _ = runs
    assert codes[3:6] == [[0], [0, 0, 0], [0, 0]]
    assert_same_losses(folder / "one", folder / "turns")


def test_processes_draw_the_same_tokens_and_share_r_drop(runs: tuple[Path, list[list[int]], str]) -> None:
    folder, codes, _ = runs
    assert codes[8:10] == [[0], [0, 0]]
    assert_same_losses(folder / "regularised", folder / "regularised by two")
    assert curve(folder / "regularised")[0]["train_loss"] != curve(folder / "one")[0]["train_loss"]


def test_processes_freeze_the_encoder_together(runs: tuple[Path, list[list[int]], str]) -> None:
    folder, codes, _ = runs
    assert codes[11:13] == [[0], [0, 0]]
    assert_same_losses(folder / "frozen", folder / "frozen by two")


def test_all_processes_stop_early_together(runs: tuple[Path, list[list[int]], str]) -> None:
    folder, codes, _ = runs
    assert codes[6] == [0, 0]
    assert [row["step"] for row in curve(folder / "stopped")] == [1, 2, 3]


def test_clock_of_the_first_process_decides_for_all(runs: tuple[Path, list[list[int]], str]) -> None:
    folder, codes, said = runs
    assert codes[10] == [0, 0]
    first, second = (json.loads((folder / "clock" / f"time-{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert first["ended_minutes"] == 0.6
    steps = first["rates"][-1][0]
    assert steps > 3 and f"the time is over after {steps} steps" in said
    assert first["rates"][-1][2] < max(rate for *_, rate in first["rates"]) / 2


def test_processes_with_different_data_report_it(runs: tuple[Path, list[list[int]], str]) -> None:
    _, codes, said = runs
    assert codes[7] == [1, 1]
    for rank in (0, 1):
        assert f"process {rank}: the processes find different data or run folders" in said


def test_only_one_process_prints(runs: tuple[Path, list[list[int]], str]) -> None:
    _, _, said = runs
    assert said.count("training on cpu in float32") == 10
    assert said.count("continuing at step 2 on cpu") == 1


def test_without_torchrun_there_is_no_process_group() -> None:
    with joined(torch.device("cpu")) as world:
        assert (world.rank, world.size, world.is_first) == (0, 1, True)
        assert not torch.distributed.is_initialized()
        assert world.broadcast_from_first(lambda: 5) == 5
        assert world.max(7) == 7


def test_dropout_differs_by_process_step_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    monkeypatch.setattr(torch, "manual_seed", begun.append)
    World().seed(1, 1)
    assert not begun  # the generator of one process goes on by itself
    for seed, step, rank in itertools.product((1, 2), (1, 2, 11), (0, 1)):
        World(rank, 2).seed(seed, step)
    assert len(set(begun)) == 12
    assert all(0 <= number < 2**63 for number in begun)


# ---- Started by torchrun, killed, interrupted, and started again


def command(data: Path, run: Path) -> list[object]:
    options = {
        "--data": data, "--out": run, "--steps": 30, "--evaluate-every": 30, "--save-every": 2, "--batch-tokens": 300,
        "--d-model": 16, "--num-heads": 2, "--d-ff": 32, "--encoder-layers": 1, "--decoder-layers": 1,
        "--device": "cpu", "--patience": 0, "--dropout": 0.2,
    }  # fmt: skip
    return ["train", *(str(part) for option in options.items() for part in option)]


def started(data: Path, run: Path, said: Path) -> WarmProcess:
    with said.open("wb") as file:
        return WarmProcess([*TORCHRUN, *map(str, command(data, run))], stderr=file.fileno())


def workers(agent: int) -> list[int]:
    """The training workers of torchrun's process, by rank. A machine need not have `ps`."""
    lists = [file.read_text() for file in Path(f"/proc/{agent}/task").glob("*/children")]
    return sorted(int(child) for text in lists for child in text.split())


def wait_for_step(process: WarmProcess, run: Path, step: int) -> None:
    while process.poll() is None:
        snapshot = load_state(run) if run.exists() else None
        if snapshot and snapshot["state"]["step"] >= step:
            return
        time.sleep(0.01)
    pytest.fail("it ended before it could be killed")


def test_killed_or_interrupted_processes_end_together_and_resume_to_the_same_weights(
    data: Path, tmp_path: Path
) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = started(data, killed, tmp_path / "said")
    wait_for_step(process, killed, 2)
    both = workers(process.pid)
    assert len(both) == 2
    os.kill(both[1], signal.SIGKILL)
    assert process.wait() != 0
    assert "error: another process of this training has ended" in (tmp_path / "said").read_text(encoding="utf-8")
    assert not workers(process.pid)

    codes, said = call((2, command(data, killed), {"interrupted": 3}), (2, command(data, whole), {}))
    assert codes == [[128 + signal.SIGINT, 0], [0, 0]]
    assert said.count("saved and stopped") == 1
    assert "torchrun --standalone --nproc-per-node 2 -m training train" in said
    snapshot = load_state(killed)
    assert snapshot is not None
    assert snapshot["state"]["step"] < 30

    codes, said = call((2, command(data, killed), {}))
    assert codes == [[0, 0]]
    assert f"continuing at step {snapshot['state']['step']}" in said
    assert "Warning" not in said
    ours, theirs = (load_file(saved_weights(run)[-1]) for run in (killed, whole))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_processes_share_one_lock_and_are_refused_together(data: Path, tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        codes, said = call((2, command(data, tmp_path), {}))
    assert codes == [[1, 1]]
    assert said.count(f"error: another command is running in {tmp_path}; wait for it or stop it\n") == 2
    assert list(tmp_path.iterdir()) == []


def test_verb_that_processes_cannot_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = CliRunner().invoke(cli, ["evaluate", "--bundle", "x", "--pairs", "y"])
    assert done.exit_code == 1
    assert done.stderr == "error: only `train` runs in several processes: start `evaluate` without torchrun\n"


if __name__ == "__main__":
    in_processes(json.loads(sys.argv[1]))
