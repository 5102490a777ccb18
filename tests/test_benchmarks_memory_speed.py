"""The times of a translation memory are printed, each of what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory_speed import LOOKUPS, Times, main


def test_every_step_of_a_memory_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (f"The {number} houses of {number * 7} streets\tLes {number} maisons\n" for number in range(10, 4_100))
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    main(tmp_path / "pairs.tsv", "en", "fr", LOOKUPS)
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
        "update of the index by 200 pairs",
    ]
    assert f"for {LOOKUPS:,} pairs" in printed[0]
    assert printed[1].endswith(f"for {LOOKUPS:,} pairs")


def test_times_are_of_the_calls_in_order_of_length() -> None:
    assert Times.of([0.003, 0.001, 0.002]) == (2_000, 2_000, 3_000)
