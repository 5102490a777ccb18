"""The times of a translation memory are printed, each of what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import memory_speed
from benchmarks.memory_speed import Times, main

COUNT = 300


def test_every_step_of_a_memory_is_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, few in (("LOOKUPS", COUNT), ("SEARCHES", 50), ("SINGLE_WRITES", 20)):
        monkeypatch.setattr(memory_speed, name, few)
    lines = (f"The {number} houses of {number * 7} streets\tLes {number} maisons\n" for number in range(10, 700))
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    main(tmp_path / "pairs.tsv", "en", "fr", COUNT)
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == [
        "write",
        "load",
        "index of similar texts",
        "equal text",
        "no equal text",
        "similar texts",
        "version, for each request",
        "write of one pair, by the clock",
        "update of the index by 20 pairs",
    ]
    assert f"for {COUNT} pairs" in printed[0]
    assert printed[1].endswith(f"for {COUNT} pairs")


def test_times_are_of_the_calls_in_order_of_length() -> None:
    assert Times.of([0.003, 0.001, 0.002]) == (2_000, 2_000, 3_000)
