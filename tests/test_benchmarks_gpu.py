"""The GPU benchmark at a size for a processor: it runs, and its roofline equals one counted by hand."""

from __future__ import annotations

import pytest
from typer import Typer
from typer.testing import CliRunner

from benchmarks.gpu import Cost, main, step_cost
from model.config import ModelConfig


def test_step_reads_its_weights_once_and_each_rows_keys() -> None:
    config = ModelConfig(10, 10, d_model=4, num_heads=2, d_ff=8, encoder_layers=1, decoder_layers=3)
    weights = 3 * (6 * 16 + 2 * 32) + 40
    cached = 3 * 4 * 5 * 4  # layers; keys and values, target and source; positions; width
    cost = step_cost(config, rows=7, keys=5, item=2)
    assert cost == Cost(2 * (weights + 7 * cached), 2 * 7 * (weights + cached))


def test_slower_of_two_limits_bounds_a_step() -> None:
    assert Cost(100, 30).seconds(Cost(50, 60)) == pytest.approx(2.0)
    assert Cost(10, 300).seconds(Cost(50, 60)) == pytest.approx(5.0)


def test_command_prints_a_line_for_each_number_of_rows() -> None:
    app = Typer()
    app.command()(main)
    options = "--architecture toy --vocabulary 50 --length 3 --rounds 1 --ceiling-size 32 --rows 2 --rows 4"
    result = CliRunner().invoke(app, options.split(), catch_exceptions=False)
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()[-2:]] == ["2", "4"]
