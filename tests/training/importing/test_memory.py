"""training/importing/: the memory that importing takes, measured in a process of its own as
`benchmarks.importing_memory` does: run as a
program, this file measures it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from shared_fixtures import export_quickly
from warm import run_warm

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[2]


def test_an_int8_model_takes_no_more_than_twice_its_size_and_100_mb(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    model, environment = (
        tmp_path / "ctranslate2-shallow",
        {**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}/support"},
    )
    for command in (["benchmarks.importing_memory", "--make"], ["test_memory"]):
        done = run_warm([*command, str(model)], environment, Path(__file__).parent)
        assert done.returncode == 0, done.stderr
    _, peak = json.loads(done.stdout.splitlines()[-1])["peak_mb"]
    size = max(file.stat().st_size for file in model.iterdir()) / 1e6
    assert size > 60  # its tables as float32, two at a time, were over the limit
    assert size / 3 < peak <= 2 * size + 100


if __name__ == "__main__":
    from benchmarks.importing_memory import import_and_measure
    from training.importing import placeholders

    export_quickly(pytest.MonkeyPatch())
    placeholders.CARRIERS = 1
    import_and_measure(Path(sys.argv[1]), "float32")
