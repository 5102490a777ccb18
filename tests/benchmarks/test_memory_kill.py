"""A server that is killed while it takes corrections loses none that it has acknowledged."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from benchmarks.memory_kill import REQUEST_TIMEOUT_S, run, running_service

pytestmark = pytest.mark.slow


def test_nothing_acknowledged_is_lost_under_sigkill(bundle_folder: Path, tmp_path: Path) -> None:
    report = run(bundle_folder, tmp_path / "memory.sqlite", requests=60, kills=1)
    assert (report.lost, report.wrong) == ([], [])
    assert report.kills == 1
    assert report.acknowledged > 0
    assert report.translated > 0


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_far_too_many_pairs_are_refused_with_less_work_than_a_few_are_kept(bundle_folder: Path, tmp_path: Path) -> None:
    def put(url: str, count: int) -> httpx.Response:
        content = b"".join(b"%d x\ty\n" % number for number in range(count))
        files, data = {"file": ("pairs.tsv", content)}, {"source": "en", "target": "fr"}
        return httpx.put(f"{url}/memory", files=files, data=data, timeout=REQUEST_TIMEOUT_S)

    with running_service(bundle_folder, tmp_path / "memory.sqlite") as (process, url):
        began = processor_seconds(process.pid)
        answer = put(url, 400_000)
        refused = processor_seconds(process.pid) - began
        assert (answer.status_code, "more than 200,000 pairs" in answer.text) == (422, True)
        assert put(url, 10_000).json()["pairs"] == 10_000
        kept = processor_seconds(process.pid) - began - refused
        assert refused < kept
    with closing(sqlite3.connect(tmp_path / "memory.sqlite")) as database:
        assert database.execute("SELECT COUNT(*) FROM pairs").fetchone() == (10_000,)
