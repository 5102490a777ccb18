"""The toy task: its data, that every norm placement learns it, and its last line of output."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from typer.testing import CliRunner

from model.config import ARCHITECTURES, NormPlacement
from training.__main__ import cli
from training.cli.toy import LENGTH, QUESTION, START, VOCABULARY, ToyOptions, draw_batch, drop_first, learn

pytestmark = pytest.mark.slow

MODULE = sys.modules["training.cli.toy"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer a side, whose learning rate rises for fewer steps: it learns in half the epochs."""
    monkeypatch.setitem(ARCHITECTURES, "toy", ARCHITECTURES["toy"] | {"encoder_layers": 1, "decoder_layers": 1})
    monkeypatch.setattr(MODULE, "WARMUP", 150)


@pytest.fixture
def few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "TRAINING_BATCHES", 3)


def test_target_is_the_source_without_its_first_number_which_starts_the_decoder() -> None:
    batch = draw_batch(torch.Generator().manual_seed(1))
    assert batch.src.shape == (32, LENGTH)
    assert (batch.src[:, 0] == START).all()
    assert set(batch.src.flatten().tolist()) == set(range(1, VOCABULARY))
    assert batch.tgt_out.equal(batch.src[:, 1:])
    assert (batch.tgt_in[:, 0] == START).all()
    assert batch.tgt_in[:, 1:].equal(batch.tgt_out[:, :-1])
    assert batch.target_tokens == batch.tgt_out.numel()


def expect_learning(lines: list[str], epochs: int) -> None:
    """The validation loss falls in the first three epochs, and below chance."""
    losses = [float(line.split("validation loss ")[1].split(",")[0]) for line in lines if line.startswith("epoch")]
    assert len(losses) == epochs
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < math.log(VOCABULARY - 1)


@pytest.mark.parametrize("norm", ["post", "residual_post"])  # the last test has the usual one
def test_loss_falls_below_chance_in_three_epochs(norm: NormPlacement) -> None:
    lines: list[str] = []
    learn(ToyOptions(norm=norm, d_model=32, epochs=3), lines.append)
    expect_learning(lines, 3)


def test_equal_options_give_equal_weights(few_batches: None) -> None:
    first, second = (learn(ToyOptions(d_model=16, epochs=1), lambda line: None) for _ in range(2))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert one.equal(other)


def test_toy_model_trains_with_one_thread(monkeypatch: pytest.MonkeyPatch, few_batches: None) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        learn(ToyOptions(d_model=16, epochs=1), lambda line: None)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_output_is_one_number_shorter_than_the_input(few_batches: None) -> None:
    model = learn(ToyOptions(d_model=16, epochs=1), lambda line: None)
    assert len(drop_first(model, QUESTION)) == 9
    assert drop_first(model, [1]) == []


def test_command_ends_with_the_numbers_after_the_first() -> None:
    width, epochs = 64, 4
    assert ToyOptions().d_model >= width and ToyOptions().epochs >= epochs, "by default it learns as much"
    words = ["toy", "--device", "cpu", "--d-model", str(width), "--epochs", str(epochs)]
    result = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert sum(line.startswith("epoch ") and line.endswith("tokens/s") for line in lines) == epochs
    expect_learning(lines, epochs)
    assert lines[-1] == "[2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize("option", [("--norm", "sideways"), ("--d-model", "63"), ("--epochs", "0")])
def test_wrong_option_is_refused_by_name(option: tuple[str, str]) -> None:
    result = CliRunner().invoke(cli, ["toy", *option])
    assert result.exit_code in (1, 2)
    assert option[0].strip("-").replace("-", "_") in result.output
