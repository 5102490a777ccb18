"""What a replay of corrections counts."""

from __future__ import annotations

from benchmarks.memory_replay import replay

PAIRS = [
    ("Wait 30 s", "Attendez 30 s"),
    ("Wait 40 s", "Attendez 40 s"),
    ("Wait 50 s", "Patientez 50 s"),
    ("Wait 60 s", "Attendez 61 s"),
    ("Wait  30 s", "Attendez 30 s"),
    ("Wait 30 s", "Patientez 30 s"),
]


def test_a_replay_tells_wording_from_wrong_values() -> None:
    done = replay(PAIRS, "en", "fr")
    assert (done.texts, done.exact, done.same_text, done.inconsistent) == (6, 5, 2, 1)
    assert [reference for _, _, reference in done.other] == ["Patientez 50 s", "Attendez 61 s"]
    assert done.wrong_values == 1


def test_a_replay_compares_edits_with_those_of_the_model() -> None:
    done = replay(PAIRS[:2], "en", "fr", ["Attendre 30 s", "Attendre 40 s"])
    assert (done.reference_chars, done.edits_without, done.edits) == (26, 4, 2)
