"""The training benchmark: all trainers get the same sentences, its arithmetic, and its output. No test asserts
speed."""

from __future__ import annotations

import os
import pickle
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from shared_fixtures import make_bundle
from warm import run_warm

from benchmarks.trainers import (
    COMPARISONS,
    CONTESTANTS,
    TUTORIAL_BATCH,
    Contestant,
    PlainTransformer,
    Task,
    taking_part,
    updates,
    whole,
)
from benchmarks.training import random_pairs, read_task_pairs, report
from model.config import ModelConfig
from training.data.batches import Batch

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ModelConfig(40, 40, d_model=16, num_heads=2, d_ff=32, encoder_layers=1, decoder_layers=1, dropout=0.0)


def task(count: int = 300) -> Task:
    return Task(random_pairs(count, 40), CONFIG, batch_tokens=256, threads=1)


def sentences(update: list[Batch]) -> list[list[int]]:
    """The source and target tokens of all pairs of an update, sorted, without padding."""
    pairs = (pair for batch in update for pair in torch.cat([batch.src, batch.tgt_out], dim=1).tolist())
    return sorted([token for token in pair if token != CONFIG.pad_id] for pair in pairs)


@pytest.mark.parametrize("title", list(COMPARISONS)[:2])
def test_all_trainers_update_on_the_same_sentences(title: str) -> None:
    _, names = COMPARISONS[title]
    ours, *rivals = ([sentences(update) for update in islice(updates(task(), CONTESTANTS[n]), 20)] for n in names)
    assert all(rival == ours for rival in rivals)


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_epoch_has_every_sentence_once(shuffled: bool) -> None:
    count = 300
    sizes, seen = [], []
    for update in updates(task(count), Contestant("", lambda config: lambda batches: 0.0, shuffled, whole)):
        sizes.append(len(update[0].src))
        seen += sentences(update)
        if len(seen) >= count:
            break
    pairs = task(count).pairs
    everything = pairs.batch(torch.arange(count).numpy(), CONFIG)
    assert sorted(seen) == sentences([everything])
    assert not shuffled or max(sizes) <= TUTORIAL_BATCH


def test_plain_loops_model_ignores_padding() -> None:
    torch.manual_seed(0)
    model = PlainTransformer(CONFIG).eval()
    src, tgt = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 8, 9]])
    logits = model(src, tgt)
    padded = model(torch.nn.functional.pad(src, (0, 3)), torch.nn.functional.pad(tgt, (0, 2)))
    assert torch.allclose(padded[:, :3], logits, atol=1e-5)


def test_table_shows_the_median_of_per_round_ratios() -> None:
    speeds = {name: [50.0, 100.0, 100.0] for name in CONTESTANTS}
    speeds["ours"] = [100.0, 400.0, 300.0]
    table = list(report(speeds))
    row = next(line for line in table if line.startswith("  plain loop, float32"))
    assert row.endswith("3.00 (2.00 to 4.00)")
    assert "100 (50 to 100)" in row
    assert sum(line.startswith("  ") and not line.isspace() for line in table[1:]) == 8


@pytest.mark.parametrize("fit", [True, False])
def test_bfloat16_is_measured_if_the_processor_supports_it_and_else_reported_as_missing(
    fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.trainers.computes_bfloat16", lambda: fit)
    measured = taking_part(CONTESTANTS)
    assert ("autocast" in measured) == fit
    table = list(report({name: [1.0] for name in measured}))
    assert any(line.startswith("bfloat16 was not measured") for line in table) != fit


def test_generated_pairs_are_as_long_as_everyday_sentences() -> None:
    pairs = random_pairs(2000, 100)
    assert 8 < pairs.source.lengths.mean() + 1 < 11
    assert 9 < pairs.target.lengths.mean() + 1 < 13
    assert pairs.source.padded(np.arange(2000), (), None, 4).min() >= 4
    assert pairs.target.padded(np.arange(2000), (), None, 0).max() < 100


def test_pairs_from_a_file_are_tokenised_without_the_longest(tmp_path: Path) -> None:
    lines = ["The cat sleeps.\tLe chat dort.", "A dog!\tUn chien !", "long " * 400 + "\tcourt"]
    (tmp_path / "pairs.tsv").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    pairs, size = read_task_pairs(tmp_path / "pairs.tsv", 400)
    assert len(pairs) == 2
    highest = max(int(side.padded(np.arange(2), (), None, 0).max()) for side in (pairs.source, pairs.target))
    assert highest < size <= 400


FORKING = """
import multiprocessing, typer
from benchmarks import training
training._processes = lambda: multiprocessing.get_context("fork")
random_pairs = training.random_pairs
training.random_pairs = lambda count, vocab_size: random_pairs(300, vocab_size)
typer.run(training.main)
"""
"""The command with few pairs, whose processes are copies of it, which has imported all: fresh ones take seconds."""


def test_fresh_processes_can_be_given_a_task_and_each_contestant() -> None:
    for contestant in CONTESTANTS.values():
        assert pickle.loads(pickle.dumps((task(), contestant)))[1] == contestant


def test_command_names_the_machine_and_prints_every_row(tmp_path: Path) -> None:
    shape = {"architecture": "toy", "vocab-size": 200, "batch-tokens": 64}
    options = {"minutes": 0, "steps": 1, "threads": 1, **shape}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    (tmp_path / "forking.py").write_text(FORKING)
    result = run_warm(["forking", *words], {**os.environ, "PYTHONPATH": str(ROOT)}, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"PyTorch {torch.__version__}" in result.stdout
    assert "threads: 1" in result.stdout
    for title, (_, names) in COMPARISONS.items():
        assert title in result.stdout
        assert all(f"  {CONTESTANTS[name].label} " in result.stdout for name in taking_part(names))


def test_text_benchmark_prints_the_share_of_a_request_outside_the_engine(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"The cat sleeps, {n} times.\tLe chat dort.\n" for n in range(30)), encoding="utf-8")
    command = ["benchmarks.text", "--pairs", str(pairs), "--bundle", str(tmp_path / "en-fr")]
    done = run_warm([*command, "--characters", "500", "--rounds", "2"])
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "500 characters, 2 requests" in printed
    share = float(printed.split("outside the engine ")[1].split()[0])
    assert 0 < share < 100
