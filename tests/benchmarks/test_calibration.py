"""The comparison of ways to estimate quality: their fits and figures against known values, and the command's output."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from shared_fixtures import SHIPPED
from typer.testing import CliRunner

from benchmarks.calibration import Estimates, best_temperature, draw, fitted_ways, is_good, line, main, mean
from training.corpora.corpus import Pair, write_pairs
from training.evaluation.calibration import Judged, auroc, calibration_error, risk_coverage

pytestmark = pytest.mark.slow


def translations(temperature: float, count: int, seed: int = 0) -> list[Judged]:
    """Translations that are good with the probability that the mean of their log probabilities has with `temperature`.
    Their log probabilities differ, their lengths too."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        log_probs = (-random.exponential(0.4, int(random.integers(1, 12))) - 0.01).tolist()
        good = random.random() < math.exp(sum(log_probs) / len(log_probs) / temperature)
        found.append(Judged(log_probs, True, bool(good), [(log_probs[0], bool(good))]))
    return found


def test_the_mean_is_of_the_log_probabilities() -> None:
    assert mean(Judged([-1.0, -2.0, -6.0], True, True, [])) == -3.0


@pytest.mark.parametrize(("good", "of"), [(1, 2), (1, 10), (9, 10)])
def test_the_temperature_makes_equal_translations_as_probable_as_they_are_good(good: int, of: int) -> None:
    """The likeliest temperature of translations with one mean is that mean over the logarithm of the share of good
    ones."""
    judged = [Judged([-0.5, -1.5], True, number < good, []) for number in range(of)]
    assert best_temperature(judged) == pytest.approx(-1 / math.log(good / of), rel=0.01)  # the grid's distance


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_the_temperature_of_a_sample_is_found(temperature: float) -> None:
    assert best_temperature(translations(temperature, 20_000)) == pytest.approx(temperature, rel=0.05)


def test_risk_coverage_by_hand() -> None:
    estimates, good = np.array([0.1, 0.9, 0.5, 0.7]), np.array([0.0, 1.0, 1.0, 0.0])
    # From the best: good, bad, good, bad.
    assert risk_coverage(estimates, good).tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert risk_coverage(-estimates, good).tolist() == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])


def test_a_line_has_the_figures_by_hand() -> None:
    # Bins of 2 and 2: estimated 0.85 and good half the time, 0.15 and never good.
    estimates = Estimates("quality", np.array([0.85, 0.85, 0.15, 0.15]))
    written = line("set", estimates, np.array([1.0, 0.0, 0.0, 0.0]))
    # The best is good, so none of one in ten is not; one of the better half; the curve's mean is (0+1/2+2/3+3/4)/4.
    # AUROC: the good one ties with one of three and beats two.
    assert written.split() == ["set", "25.0%", "quality", "0.250", "0.833", "0.0%", "50.0%", "0.479"]
    assert line("set", estimates, np.zeros(4)).split()[4] == "-"


def test_all_ways_are_calibrated_where_a_temperature_is_right() -> None:
    ways = fitted_ways(translations(0.5, 6000))
    others = translations(0.5, 6000, seed=1)
    good = is_good(others)
    quality, logistic, temperature = ways.estimates(others)
    assert [one.name for one in (quality, logistic, temperature)] == ["quality", "mean log probability", "temperature"]
    for way in (quality, logistic, temperature):
        assert calibration_error(way.values, good) < 0.06
    assert ways.temperature == pytest.approx(0.5, rel=0.06)


def test_the_mean_orders_translations_alike_with_and_without_a_temperature() -> None:
    ways, others = fitted_ways(translations(0.5, 500)), translations(0.5, 500, seed=1)
    _, logistic, temperature = (one.values for one in ways.estimates(others))
    good = is_good(others)
    assert auroc(logistic, good) == pytest.approx(auroc(temperature, good))
    assert risk_coverage(logistic, good).tolist() == pytest.approx(risk_coverage(temperature, good).tolist())


def test_a_temperature_that_is_wrong_everywhere_is_not_calibrated() -> None:
    ways = fitted_ways(translations(0.5, 2000))
    other = translations(2.0, 2000, seed=1)
    *_, temperature = ways.estimates(other)
    assert calibration_error(temperature.values, is_good(other)) > 0.1


def test_the_plot_has_both_curves_of_each_set(tmp_path: Path) -> None:
    judged = translations(0.5, 200)
    ways = fitted_ways(judged).estimates(judged)
    draw(tmp_path / "plot.svg", "en-fr", {"news": (ways, is_good(judged)), "laws": (ways, is_good(judged))})
    drawn = (tmp_path / "plot.svg").read_text()
    assert drawn.startswith("<?xml")
    for name in ("news", "laws"):
        assert f"<!-- {name} -->" in drawn
    draw(tmp_path / "again.svg", "en-fr", {"news": (ways, is_good(judged)), "laws": (ways, is_good(judged))})
    assert (tmp_path / "again.svg").read_text() == drawn


@pytest.mark.bundle
def test_the_command_prints_a_line_for_each_set_and_way(tmp_path: Path) -> None:
    pairs = [Pair(f"The cat {number}.", f"Le chat {number}.") for number in range(90)]
    write_pairs(tmp_path / "dev.tsv", pairs[:60])
    write_pairs(tmp_path / "test.tsv", pairs[60:])
    app = typer.Typer()
    app.command()(main)
    given = ["--pairs", str(tmp_path / "dev.tsv"), "--test", str(tmp_path / "test.tsv"), "--plot"]
    result = CliRunner().invoke(app, ["--bundle", str(SHIPPED / "en-fr"), *given, str(tmp_path / "plot.svg")])
    assert result.exit_code == 0, result.output
    name, heading, *lines = result.stdout.splitlines()
    assert re.fullmatch(r"en-fr@\w{12}; temperature \d+\.\d\d", name)
    assert heading.split()[:5] == ["set", "good", "estimate", "error", "AUROC"]
    assert [re.split(r"\s{2,}", one)[2] for one in lines] == ["quality", "mean log probability", "temperature"]
    assert (tmp_path / "plot.svg").exists()
