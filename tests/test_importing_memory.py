"""The memory that importing takes, measured in a process of its own as `benchmarks.importing_memory` does."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from warm import run_warm

TESTS = Path(__file__).resolve().parent


def test_an_int8_model_takes_no_more_than_twice_its_size_and_100_mb(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}"}
    for options in (["--make", f"{tmp_path}/ctranslate2-shallow"], ["ctranslate2-shallow", "--folder", str(tmp_path)]):
        done = run_warm(["benchmarks.importing_memory", *options], environment, TESTS)
        assert done.returncode == 0, done.stderr
    found = re.match(r"ctranslate2-shallow: (\d+) MB, limit (\d+); peak (\d+) MB", done.stdout)
    assert found, done.stdout
    size, limit, peak = map(int, found.groups())
    assert size > 60  # its tables as float32, two at a time, were over the limit
    assert peak <= limit
