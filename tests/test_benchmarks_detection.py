"""The detection benchmark: its samples and its arithmetic. No test asserts accuracy."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.detection import (
    OURS,
    UNSERVED,
    Judged,
    Result,
    Sample,
    accuracy,
    brier,
    honesty,
    judge,
    kind_of,
    reliability,
    samples,
)

SAID = [
    Sample("Good morning, all.", "en", "sentence"),
    Sample("Bonjour.", "fr", "sentence"),
    Sample("Tag", "de", "1 word"),
]
RESULT = Result(
    0.1,
    1.0,
    0.001,
    closed=[("en", 0.9), ("en", 0.6), ("de", 0.5)],
    pairs={
        "de-en": [("en", 0.9), ("de", 0.3), ("de", 0.5)],
        "de-fr": [("fr", 0.1), ("fr", 0.8), ("fr", 0.7)],
        "en-fr": [("en", 1.0), ("fr", 0.9), (None, 0.0)],
    },
)


def test_texts_valid_in_two_languages_are_not_sampled(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("Tom?\tTom?\nThe cat sleeps.\tLe chat dort.\nOpen the menu.\tMenu !\n", encoding="utf-8")
    found = samples([("en", "fr", path)], most=10)
    sentences = {(sample.text, sample.language) for sample in found if sample.kind == "sentence"}
    assert sentences == {
        ("The cat sleeps.", "en"),
        ("Le chat dort.", "fr"),
        ("Open the menu.", "en"),
        ("Menu !", "fr"),
    }
    parts = [sample for sample in found if sample.kind != "sentence"]
    assert {sample.kind for sample in parts} == {"1 word", "2 words"}
    assert all(len(sample.text.split()) == int(sample.kind[0]) for sample in parts)
    assert found == samples([("en", "fr", path)], most=10)


@pytest.mark.parametrize(("length", "kind"), [(9, "< 10"), (10, "10-19"), (39, "20-39"), (79, "40-79"), (80, "80 +")])
def test_sentences_are_classified_by_their_characters(length: int, kind: str) -> None:
    assert kind_of(Sample("a" * length, "en", "sentence")) == kind


def test_accuracy_is_reported_by_class() -> None:
    [row] = accuracy(SAID, {OURS: RESULT}).rows.values()
    assert row == [0.0, 100.0, None, None, None, 100.0, None]


def test_texts_in_unserved_languages_have_their_share_of_the_weight() -> None:
    found = judge(SAID, RESULT)
    within = sum(judgement.weight for judgement in found if judgement.served)
    without = sum(judgement.weight for judgement in found if not judgement.served)
    assert within == 6
    assert without / (within + without) == pytest.approx(UNSERVED)


def test_no_answer_for_a_served_language_counts_as_an_error_without_confidence() -> None:
    assert brier(Judged(1.0, True, True, 1)) == 0
    assert brier(Judged(0.0, False, True, 1)) == 1
    assert brier(Judged(1.0, False, True, 1)) == 2
    assert brier(Judged(0.5, False, False, 1)) == 0.25


def test_calibration_is_shown_as_accuracy_by_confidence() -> None:
    [row] = honesty(SAID, {OURS: RESULT}).rows.values()
    assert row[1:] == pytest.approx([4.8 / 6, 100 * 3 / 6, 0.4 / 3, 0.0])
    table = reliability(SAID, RESULT).rows
    assert sum(float(str(row[0])) for row in table.values()) == pytest.approx(100)
    assert table["0.80 to 0.95"][1:] == pytest.approx([2.6 / 3, 1.0])
