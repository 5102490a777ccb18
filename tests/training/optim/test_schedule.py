"""The learning rate against the paper's formula, and its end."""

from itertools import pairwise

import pytest

from training.optim.schedule import noam


def formula(step: int, d_model: int, warmup: int) -> float:
    """Vaswani et al. 2017, equation 3, letter by letter."""
    return float(d_model ** (-0.5) * min(step ** (-0.5), step * warmup ** (-1.5)))


@pytest.mark.parametrize("step", [1, 2, 399, 400, 401, 5000, 100_000])
def test_learning_rate_is_the_papers(step: int) -> None:
    assert noam(step, 512, 400) == pytest.approx(formula(step, 512, 400), rel=1e-12)
    assert noam(step, 512, 400, factor=0.7) == pytest.approx(0.7 * formula(step, 512, 400), rel=1e-12)


def test_learning_rate_rises_linearly_to_its_peak_at_the_end_of_warm_up() -> None:
    rates = [noam(step, 128, 50) for step in range(1, 200)]
    assert rates.index(max(rates)) == 49
    assert rates[24] == pytest.approx(max(rates) / 2)
    assert all(later < earlier for earlier, later in pairwise(rates[49:]))


def test_cooldown_changes_nothing_before_it_and_falls_linearly_to_almost_zero() -> None:
    total, cooldown = 1000, 0.2
    shares = [noam(step, 64, 100, 1.0, total, cooldown) / noam(step, 64, 100) for step in range(1, total + 1)]
    assert shares[:800] == [1.0] * 800
    descents = [earlier - later for earlier, later in pairwise(shares[800:])]
    assert descents == pytest.approx([1 / 201] * 199)
    assert 0 < shares[-1] < 0.006
