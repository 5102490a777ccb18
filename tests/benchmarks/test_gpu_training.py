"""The GPU training benchmark: its operation count, and its command."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer import Typer
from typer.testing import CliRunner, Result
from warm import WarmProcess, server_address

from benchmarks.gpu_training import Speed, logged, main, operations, padding, peak, sweep
from benchmarks.training import random_pairs
from model.config import ModelConfig
from training.data.batches import Batch, Pairs
from training.optim.trainer import Recipe, Trainer

pytestmark = pytest.mark.slow

CONFIG = ModelConfig(40, 40, d_model=16, num_heads=2, d_ff=32, encoder_layers=2, decoder_layers=1, dropout=0.0)


def test_operation_count_equals_pytorchs_in_forward_and_backward() -> None:
    pairs = Pairs.of([[5] * 6] * 8, [[6] * 6] * 8)
    batch = pairs.batch(np.arange(8), CONFIG)
    trainer = Trainer(CONFIG, Recipe(steps=1, precision="float32"), torch.device("cpu"))
    with FlopCounterMode(display=False) as counter:
        trainer.step([batch], 0.0)
    hidden = CONFIG.decoder_layers * 12 * CONFIG.d_model * 8 * 7 * 6 / 2  # what the causal mask hides is computed too
    in_place = 2 * CONFIG.d_model * CONFIG.target_vocab_size * batch.target_tokens  # addmm_: the counter overlooks it
    assert operations(CONFIG, batch) + hidden == pytest.approx(counter.get_total_flops() + in_place, rel=1e-6)


def test_padding_counts_as_no_work_and_is_reported() -> None:
    pairs = Pairs.of([[5], [5] * 9], [[6], [6] * 9])
    together = pairs.batch(np.arange(2), CONFIG)
    alone = [pairs.batch(np.array([row]), CONFIG) for row in range(2)]
    assert operations(CONFIG, together) == pytest.approx(sum(operations(CONFIG, batch) for batch in alone))
    assert padding(alone, CONFIG.pad_id) == 0
    assert padding([together], CONFIG.pad_id) == pytest.approx(0.4)


def test_peak_rate_is_found_by_the_gpus_name() -> None:
    assert peak("NVIDIA H200") == 989e12
    assert peak("NVIDIA H100 80GB HBM3") == 989e12
    assert peak("NVIDIA GeForce RTX 4090") == 165e12
    assert peak("NVIDIA A100-SXM4-40GB") == 312e12
    assert peak("NVIDIA L40S") is None
    assert peak("a processor") is None


def test_setting_that_does_not_fit_the_memory_does_not_stop_others(capsys: pytest.CaptureFixture[str]) -> None:
    def made(config: ModelConfig, recipe: Recipe, device: torch.device) -> Any:
        return recipe.batch_tokens

    def speed(trainer: Any, batches: Sequence[Batch], rounds: int) -> Speed:
        if trainer == 64:
            raise torch.OutOfMemoryError
        return Speed([1.0], 1.0, 1.0, 0.0, 1.0)

    pairs = Pairs.of([[5] * 6] * 80, [[6] * 6] * 80)
    found = [label for label, *_ in sweep(pairs, CONFIG, torch.device("cuda"), [64, 128], 1, 1, made, speed)]
    assert found == ["128 tokens"]
    assert capsys.readouterr().out.splitlines() == ["64 tokens: out of memory"]


def test_evaluations_are_read_from_the_log(tmp_path: Path) -> None:
    assert logged(tmp_path) == []
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.csv").write_text("step,dev_bleu\n10,3.5\n", encoding="utf-8")
    assert logged(tmp_path) == [{"step": 10.0, "dev_bleu": 3.5}]


def run_command(words: list[str]) -> Result:
    app = Typer()
    app.command()(main)
    return CliRunner().invoke(app, words)


def test_command_prints_every_setting_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.gpu_training.random_pairs", lambda count, size: random_pairs(500, size))
    shape = ["--architecture", "toy", "--vocab-size", "60", "--batch-tokens", "64", "--batch-tokens", "128"]
    words = [*shape, "--steps", "2", "--rounds", "1", "--device", "cpu", "--json", str(tmp_path / "figures.json")]
    done = run_command(words)
    assert done.exit_code == 0, done.output
    assert f"PyTorch {torch.__version__}" in done.stdout
    training, largest = json.loads((tmp_path / "figures.json").read_text())["tables"]
    assert list(training["rows"]) == ["64 tokens", "128 tokens"]
    assert all(row["target tokens/s"][0] > 0 for row in training["rows"].values())
    assert len(largest["rows"]) == 12


def until(folder: Path, vocab_size: int, patch: pytest.MonkeyPatch) -> Result:
    """Runs `--until 0` in `folder`, on files there given by name. Its trainer starts warm and times no steps."""

    def started(command: list[str], cwd: Path, stdout: int) -> WarmProcess:
        assert (command[1:3], stdout) == (["-m", "training"], subprocess.DEVNULL)
        with open(folder / "said", "wb") as said:
            words = ["quick_trainer", *command[3:]]
            return WarmProcess(words, cwd=cwd, address=address, stdout=said.fileno(), stderr=said.fileno())

    address = server_address()  # which it starts with Popen
    patch.setattr("benchmarks.gpu_training.subprocess.Popen", started)
    patch.chdir(folder)
    lines = [f"the number is {number}\tle nombre est {number}\n" for number in range(100, 180)]
    recipe = f"[prepare]\nvocab_size = {vocab_size}\n[training]\nbatch_tokens = 200\nevaluate_every = 2\n"
    for name, content in {"pairs.tsv": "".join(lines[8:]), "dev.tsv": "".join(lines[:8]), "own.toml": recipe}.items():
        (folder / name).write_text(content, encoding="utf-8")
    files = ["--pairs", "pairs.tsv", "--dev", "dev.tsv", "--json", "figures.json", "--recipe", "own.toml"]
    return run_command(["--until", "0", *files, "--architecture", "toy", "--device", "cpu"])


def test_minutes_to_a_bleu_come_from_a_real_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = until(tmp_path, 320, monkeypatch)
    assert result.exit_code == 0, result.output
    (table,) = json.loads((tmp_path / "figures.json").read_text())["tables"]
    assert table["note"] == "reached"
    assert table["rows"]["evaluation 1"]["minutes"] > 0


def test_failed_training_is_an_error_and_not_an_unreached_bleu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = until(tmp_path, 60, monkeypatch)
    assert isinstance(result.exception, ChildProcessError)
    assert "too small" in (tmp_path / "said").read_text(encoding="utf-8")
    assert "the training exited with status" in str(result.exception)
