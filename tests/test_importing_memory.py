"""The memory that importing takes, measured in a process of its own as `benchmarks.importing_memory` does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_an_int8_model_takes_no_more_than_twice_its_size_and_100_mb(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command = [sys.executable, "-m", "benchmarks.importing_memory", "ctranslate2-shallow", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = re.match(r"ctranslate2-shallow: (\d+) MB, limit (\d+); peak (\d+) MB", done.stdout)
    assert found, done.stdout
    size, limit, peak = map(int, found.groups())
    assert size > 60  # its tables as float32, two at a time, were over the limit
    assert peak <= limit
