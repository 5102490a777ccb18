"""The mixed soak measures growth correctly, and a short one uses all routes without a fault."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from shared_fixtures import SHIPPED
from warm import run_warm

from benchmarks.mixed_soak import SAMPLES, WARMUP_SHARE, ResourceUsage, growth, more_names

pytestmark = [pytest.mark.bundle, pytest.mark.slow]


def test_memory_growth_counts_only_what_remains() -> None:
    level = [ResourceUsage(100.0, 40, 20) for _ in range(SAMPLES)]
    level[SAMPLES - 2] = ResourceUsage(200.0, 60, 30)
    assert growth(level) == ResourceUsage(0.0, 0, 0)
    leaking = [ResourceUsage(100.0 + 2 * number, 40 + 2 * number, 20 + 2 * number) for number in range(SAMPLES)]
    assert growth(leaking).megabytes > 20
    assert growth(leaking).descriptors > 20


def test_growth_is_named() -> None:
    usages = [ResourceUsage(1.0, number, 1, names=Counter({"front: pipe": number})) for number in range(SAMPLES)]
    assert more_names(usages) == {"front: pipe": SAMPLES - 1 - int(WARMUP_SHARE * SAMPLES)}
    assert more_names(usages[:1]) == {}


def test_usage_is_that_of_a_process_and_its_children() -> None:
    """Shared pages are counted once, and descriptors and threads have names."""
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout and process.stdout.readline() == b"1\n"
        usage = ResourceUsage.of(process.pid)
        process.communicate(b"\n")
    assert usage.names.total() == usage.descriptors + usage.threads
    assert usage.names["front: pipe:[N]"] >= 2 and usage.names["worker: pipe:[N]"] >= 2
    assert sum(count for name, count in usage.names.items() if name.startswith("thread ")) == usage.threads == 2
    assert 0 < usage.front_megabytes < usage.megabytes


def test_short_mixed_soak_finds_no_fault() -> None:
    command = ["benchmarks.mixed_soak", "--minutes", "0.03", "--clients", "4"]
    bundles = ["--bundle", str(SHIPPED / "en-fr"), "--spare", str(SHIPPED / "fr-en")]
    done = run_warm([*command, *bundles], cwd=Path(__file__).parents[2])
    assert "FAILED" not in done.stdout, done.stdout
    assert re.search("second bundle added [1-9]", done.stdout), done.stdout + done.stderr
    assert "descriptors" in done.stdout
