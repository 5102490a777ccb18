"""app/runtime/work_unit.py: a unit of work is longer where Python is slower."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from app.runtime.work_unit import unit_seconds

TESTS = Path(__file__).parents[2]
PROGRAM = "from app.runtime.work_unit import unit_seconds; print(unit_seconds())"


def unit_in_a_process(*folders: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*folders, TESTS.parent]))}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_unit_is_measured_once_in_a_process() -> None:
    assert unit_seconds() == unit_seconds() > 0


def test_unit_is_several_times_as_long_where_python_is_slowed_down() -> None:
    assert unit_in_a_process(TESTS / "slow_python") > 2 * unit_in_a_process()
