"""The mixed soak measures growth correctly, and a short one uses all routes without a fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from shared_fixtures import SHIPPED

from benchmarks.mixed_soak import SAMPLES, ResourceUsage, growth


def test_memory_growth_counts_only_what_remains() -> None:
    level = [ResourceUsage(100.0, 40, 20) for _ in range(SAMPLES)]
    level[SAMPLES - 2] = ResourceUsage(200.0, 60, 30)
    assert growth(level) == ResourceUsage(0.0, 0, 0)
    leaking = [ResourceUsage(100.0 + 2 * number, 40 + 2 * number, 20 + 2 * number) for number in range(SAMPLES)]
    assert growth(leaking).megabytes > 20
    assert growth(leaking).descriptors > 20


def test_short_mixed_soak_finds_no_fault() -> None:
    command = [sys.executable, "-m", "benchmarks.mixed_soak", "--minutes", "0.2", "--clients", "4"]
    done = subprocess.run(
        [*command, "--bundle", str(SHIPPED / "en-fr"), "--spare", str(SHIPPED / "fr-en")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert "FAILED" not in done.stdout, done.stdout
    assert "second bundle added 1 times" in done.stdout, done.stdout + done.stderr
    assert "descriptors" in done.stdout
