"""What a replay of corrections counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.memory_replay import replay

pytestmark = pytest.mark.slow

PAIRS = [
    ("Wait 30 s", "Attendez 30 s"),
    ("Wait 40 s", "Attendez 40 s"),
    ("Wait 50 s", "Patientez 50 s"),
    ("Wait  30 s", "Attendez 30 s"),
    ("Wait 30 s", "Patientez 30 s"),
]


def test_a_replay_tells_repeated_texts_from_other_values() -> None:
    done = replay(PAIRS, "en", "fr")
    assert (done.texts, done.exact, done.verbatim, done.substituted, done.wrong_values) == (5, 4, 2, 2, 0)
    assert [each.reference for each in done.inconsistent] == ["Patientez 30 s"]
    assert [each.reference for each in done.other] == ["Patientez 50 s"]


def test_a_replay_tells_wording_from_wrong_values() -> None:
    done = replay([("Wait 30 s", "Attendez 30 s"), ("Wait 60 s", "Attendez 61 s")], "en", "fr")
    assert [each.reference for each in done.other] == ["Attendez 61 s"]
    assert done.wrong_values == 1


def test_texts_of_other_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("Wait 30 s\tAttendez\nOpen it.\tOuvrez\nWait 30 s\tPatientez\n", encoding="utf-8")
    (tmp_path / "trained.tsv").write_text("open  it\tOuvrir\n", encoding="utf-8")
    options = ["--source", "en", "--target", "fr", "--without", str(tmp_path / "trained.tsv"), "--show", "9"]
    made = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_replay", "--pairs", str(tmp_path / "all.tsv"), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.startswith("2 texts: 1 exact; 1 verbatim, 1 of them inconsistent;")
    assert made.stdout.endswith("inconsistent: Wait 30 s\n  Attendez\n  Patientez\n")


def test_a_replay_compares_edits_with_those_of_the_model() -> None:
    done = replay(PAIRS[:2], "en", "fr", ["Attendre 30 s", "Attendre 40 s"])
    assert (done.reference_chars, done.edits_without, done.edits) == (26, 4, 2)
