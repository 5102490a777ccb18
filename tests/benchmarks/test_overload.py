"""The harmful loads are as described, and the service withstands them; short runs on a service in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared_fixtures import listening

from app.runtime.byte_budgets import FORM_OVERHEAD_BYTES, ByteBudgets
from benchmarks.load import compiler
from benchmarks.overload import LoadReport, burst, slow_readers, unfinished_bodies

pytestmark = pytest.mark.slow

FRONT = os.getpid()
AT_ONCE: Any = {"settle_s": 0.0}
"""Nothing is asserted of the memory afterwards."""


@pytest.fixture(scope="module")
def port(bundle_folder: Path) -> Iterator[int]:
    with listening(bundle_folder) as url:
        yield int(url.rpartition(":")[2])


def test_unfinished_bodies_stay_within_their_memory_budget(bundle_folder: Path) -> None:
    size, count = 90_000, 60
    with listening(bundle_folder, max_body_bytes=100_000, max_file_bytes=100_000) as url:
        port = int(url.rpartition(":")[2])
        report = unfinished_bodies(port, FRONT, count, size, wait_s=1, path="/libretranslate/translate", **AT_ONCE)
    budget = ByteBudgets.for_size(100_000 + FORM_OVERHEAD_BYTES).bodies.max_bytes
    assert report.statuses == {503: report.statuses[503]} and report.statuses[503] >= count - budget / size


def test_unread_responses_stay_within_their_budget(port: int) -> None:
    report = slow_readers(port, FRONT, count=20, size=16_000_000, wait_s=0.2, **AT_ONCE)
    assert set(report.statuses) == {200, 503} and report.statuses[200] <= 13


@pytest.mark.skipif(compiler() is None, reason="the load generator wants a C compiler")
def test_health_responds_during_a_burst(port: int, tmp_path: Path) -> None:
    report = burst(port, FRONT, connections=300, seconds=1, folder=tmp_path, different=50, **AT_ONCE)
    assert report.statuses[200] > 0 and set(report.statuses) <= {0, 200, 503} and not report.statuses[0]
    assert max(report.health_s) < 4


def test_outcome_is_reported_in_one_line() -> None:
    report = LoadReport(1, 2, 3, [0.5, 1.25])
    assert str(report) == "memory 1 MB before, 2 at most, 3 after; /health 1.25 s at most of 2; no responses"
    report.statuses[200] = 2000
    assert str(report).endswith("2,000 x 200")
