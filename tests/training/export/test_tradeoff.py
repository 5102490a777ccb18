"""The trade-off between gains in a field and losses elsewhere: which point is exported, and what is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.export.tradeoff import PLOT, SHARES, Point, Tradeoff, explore, most_points

BEFORE = Point(0.0, 20.0, {"news": 40.0, "talk": 30.0})


def point(share: float, own: float, lost: float) -> Point:
    """A point that loses `lost` on one set and nothing on the other."""
    return Point(share, own, {"news": 40.0 - lost, "talk": 30.0})


def test_loss_is_that_of_the_set_that_lost_most() -> None:
    assert Point(0.5, 25.0, {"news": 39.0, "talk": 27.0}).loss(BEFORE) == 3.0
    assert Point(0.5, 25.0, {"news": 41.0, "talk": 30.5}).loss(BEFORE) == -0.5
    assert Point(0.5, 25.0, {}).loss(Point(0.0, 20.0, {})) == 0.0


def test_best_point_gains_most_within_the_accepted_loss() -> None:
    points = [point(1.0, 35.0, 9.0), point(0.6, 30.0, 2.0), point(0.4, 31.0, 1.0), point(0.2, 31.0, 0.5)]
    assert Tradeoff(BEFORE, points, 2.0).best is points[3]
    assert Tradeoff(BEFORE, points, 10.0).best is points[0]
    assert Tradeoff(BEFORE, points, 0.1).best is None


def test_points_beside_the_best_are_measured_too_and_a_given_one_alone() -> None:
    measured: list[float] = []

    def measure(share: float) -> Point:
        measured.append(share)
        return point(share, 20 + 10 * share, 4 * share)

    assert explore(BEFORE, measure, 2.0, None).best == measure(0.5)
    assert measured == [*SHARES, 0.3, 0.5, 0.5]
    assert most_points(None) == len(SHARES) + 2
    measured.clear()
    assert explore(BEFORE, measure, 2.0, 0.7).best is None
    assert measured == [0.7]
    assert most_points(0.7) == 1


@pytest.mark.parametrize("accepted", [0.0, 100.0])
def test_no_further_points_are_measured_if_all_are_above_or_below_the_accepted_loss(accepted: float) -> None:
    found = explore(BEFORE, lambda share: point(share, 20 + share, 4 * share), accepted, None)
    assert all(0 < point.share <= 1 for point in found.points)
    assert len({point.share for point in found.points}) == len(found.points)


def test_advice_states_gain_and_loss_and_how_to_gain_more() -> None:
    near, far = point(0.4, 30.0, 1.0), point(1.0, 36.0, 9.0)
    advice = Tradeoff(BEFORE, [near, far], 2.0).advice(near)
    assert advice == (
        "gained 10.0 BLEU in your field for 1.0 elsewhere; --accept-general-loss 9.1 --replace would gain 16.0 for 9.0"
    )
    assert (
        Tradeoff(BEFORE, [far], 10.0).advice(far)
        == "gained 16.0 BLEU in your field for 9.0 elsewhere: serve it for both"
    )
    little = point(0.4, 20.3, -0.2)
    assert "for 0.0 elsewhere, too little to show: bring more pairs" in Tradeoff(BEFORE, [little], 2.0).advice(little)


def test_refusal_states_the_smallest_possible_loss_and_what_to_do() -> None:
    said = str(Tradeoff(BEFORE, [point(0.2, 22.0, 4.0), point(1.0, 30.0, 9.0)], 2.0).refusal())
    assert "\n" not in said
    assert said.startswith("nothing is exported: elsewhere it would lose 4.0 BLEU at the least, and 2 are accepted")
    assert "--mix" in said
    assert said.endswith("; or lose 9.0 to gain 10.0 in your field: --accept-general-loss 9.1")
    worse = str(Tradeoff(BEFORE, [point(0.2, 19.0, 4.0)], 2.0).refusal())
    assert "--accept-general-loss" not in worse


@pytest.mark.slow
def test_plot_is_an_image_in_the_folder(tmp_path: Path) -> None:
    path = Tradeoff(BEFORE, [point(0.4, 30.0, 1.0), point(1.0, 36.0, 9.0)], 2.0).plot(tmp_path)
    assert path == tmp_path / PLOT
    assert path.read_bytes().startswith(b"\x89PNG")
