"""A server that is killed while it takes corrections loses none that it has acknowledged."""

from __future__ import annotations

from pathlib import Path

from benchmarks.memory_kill import run


def test_nothing_acknowledged_is_lost_under_sigkill(bundle_folder: Path, tmp_path: Path) -> None:
    report = run(bundle_folder, tmp_path / "memory.sqlite", requests=300, kills=3)
    assert (report.lost, report.wrong) == ([], [])
    assert report.kills == 3
    assert report.acknowledged > 0
    assert report.translated > 0
