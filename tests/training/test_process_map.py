"""Several processes give the same results as one, in order; whatever happens to one of them, nothing waits forever."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from training.process_map import map_in_order

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def test_results_are_in_order_and_errors_are_raised_in_the_parent() -> None:
    assert list(map_in_order(abs, range(-30, 0), 1)) == list(map_in_order(abs, range(-30, 0), 2))
    with pytest.raises(ValueError, match="math domain"):
        list(map_in_order(math.sqrt, [1, -1], 2))


def end_process(status: int) -> None:
    """Under coverage, os._exit itself cannot be pickled."""
    os._exit(status)


def test_killed_process_ends_the_work_with_a_reason() -> None:
    with pytest.raises(ValueError, match="a worker process was killed"):
        list(map_in_order(end_process, [1], 2))


def test_process_killed_in_the_middle_of_a_result_ends_the_work_too(tmp_path: Path) -> None:
    program = """
import os
from multiprocessing.connection import Connection
from training.process_map import map_in_order

def half_of_a_result(number):
    def write_half(connection, content):
        os.write(connection.fileno(), bytes(content)[: len(content) // 2])
        os._exit(1)
    Connection._send = write_half

if __name__ == "__main__":
    list(map_in_order(half_of_a_result, [1, 2], 2))
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], env=ENVIRONMENT, capture_output=True, text=True, timeout=600
    )
    assert "ValueError: a worker process was killed" in done.stderr


def test_consumer_that_stops_early_waits_for_no_result() -> None:
    results = map_in_order(time.sleep, [0, *[900] * 9], 2)
    next(results)
    began = time.monotonic()
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 600


def test_processes_end_with_their_parent(tmp_path: Path) -> None:
    program = f"""
import os, pathlib, time
from training.process_map import map_in_order

def report(number):
    pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(900)

if __name__ == "__main__":
    list(map_in_order(report, [1, 2], 2))
"""
    (tmp_path / "program.py").write_text(program)
    parent = subprocess.Popen([sys.executable, tmp_path / "program.py"], env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    while len(started := [int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()]) < 2:
        assert parent.poll() is None
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    while any(is_running(process) for process in started):
        time.sleep(0.01)


def is_running(process: int) -> bool:
    """Whether there is such a process; a zombie counts as none."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout
    return shown.strip() != "" and not shown.startswith("Z")
