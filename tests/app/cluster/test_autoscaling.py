"""The number of replicas by load."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cluster.autoscaling import LOAD, MAX_LOAD, MIN_LOAD, SETTLE_S, TARGET_LOAD, by_load
from benchmarks.ray_cluster import SATURATED_LOAD, by_load_on_shared_cores


@dataclass
class Point:
    value: float


@dataclass
class Deployment:
    """What Ray Serve tells the policy."""

    raw_metrics: dict[str, dict[str, list[Point]]]
    target_num_replicas: int
    current_num_replicas: int
    current_time: float | None = 1000.0
    last_scale_up_time: float | None = None
    policy_state: dict[str, Any] = field(default_factory=dict)


def wanted(*loads: float, target: int | None = None, **more: Any) -> int:
    """The replicas wanted when these run, with these loads."""
    series = {str(number): [Point(9.0), Point(load)] for number, load in enumerate(loads)}
    deployment = Deployment({LOAD: series, "other": {"0": [Point(9.0)]}}, target or len(loads), len(loads), **more)
    number, state = by_load(deployment)
    assert state == {}
    return number


@pytest.mark.parametrize(
    ("loads", "replicas"),
    [
        ((0.0,), 1),
        ((0.75,), 1),
        ((0.76,), 2),
        ((3.0,), 5),
        ((0.7, 0.7), 2),
        ((0.9, 0.8), 3),
        ((0.5, 0.5), 2),
        ((0.28, 0.28), 2),
        ((0.275, 0.275), 1),
        ((0.1, 0.1, 0.1), 1),
        ((0.0, 0.0, 1.2), 3),
        ((4.0, 4.0), 13),
    ],
)
def test_load_decides_the_number_of_replicas(loads: tuple[float, ...], replicas: int) -> None:
    assert wanted(*loads) == replicas


def test_no_replica_is_added_while_added_ones_do_not_take_their_share() -> None:
    assert wanted(2.0, 2.0, target=3) == 3
    assert wanted(2.0, 2.0, last_scale_up_time=1000.0 - SETTLE_S / 2) == 2
    assert wanted(2.0, 2.0, last_scale_up_time=1000.0 - SETTLE_S) == 7
    assert wanted(2.0, 2.0, current_time=None, last_scale_up_time=999.0) == 7


def test_replicas_go_although_one_that_should_run_does_not() -> None:
    assert wanted(0.2, 0.2, target=4) == 1


def test_replica_that_has_not_reported_counts_as_idle() -> None:
    deployment = Deployment({LOAD: {"0": [Point(0.7)], "1": []}}, 2, 2)
    assert by_load(deployment)[0] == 2
    assert by_load(Deployment({}, 3, 3))[0] == 1


def test_benchmark_adds_replicas_that_share_cores_when_they_are_saturated() -> None:
    saturated = {LOAD: {str(number): [Point(9.0), Point(SATURATED_LOAD)] for number in range(2)}}
    assert by_load(Deployment(saturated, 2, 2))[0] == 2
    assert by_load_on_shared_cores(Deployment(saturated, 2, 2))[0] == 4
    assert by_load_on_shared_cores(Deployment(saturated, 3, 2))[0] == 3
    assert by_load_on_shared_cores(Deployment({LOAD: {"0": [Point(0.1)], "1": []}}, 2, 2))[0] == 1


@given(st.floats(0.0, 40.0), st.integers(1, 60))
def test_steady_load_never_swings(load: float, replicas: int) -> None:
    """Whatever the load and the number at the beginning, the second decision is the last one."""

    def next_of(number: int) -> int:
        return wanted(*[load / number] * number)

    first = next_of(replicas)
    assert next_of(first) == first


@given(st.lists(st.floats(0.0, 4.0), min_size=1, max_size=30))
def test_load_is_within_bounds_after_a_change(loads: list[float]) -> None:
    total, number = sum(loads), wanted(*loads)
    if number > len(loads):
        assert MIN_LOAD * (number - 1) <= total <= TARGET_LOAD * number + 1e-6
    elif number < len(loads):
        assert total <= MIN_LOAD * number + 1e-6
    else:
        assert total <= MAX_LOAD * number
        assert number == 1 or math.ceil(round(total / MIN_LOAD, 6)) >= number


@pytest.mark.slow
def test_policy_imports_only_the_standard_library() -> None:
    program = (
        "import sys; sys.modules['ray'] = None; before = set(sys.modules); import app.cluster.autoscaling;"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["app"]
