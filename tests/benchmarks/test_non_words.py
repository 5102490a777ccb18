"""The benchmark that counts words that are none: which words it counts. No test asserts how many a bundle makes."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from benchmarks.non_words import misspelt, non_words

KNOWN = {"la", "casa", "es", "grande", "un", "haus", "das"}


@pytest.mark.parametrize(
    ("source", "translation", "target", "expected"),
    [
        ("The house is big.", "La casa es grande.", "es", {}),
        ("The house is big.", "La caserna es grandosa, grandosa.", "es", {"caserna": 1, "grandosa": 2}),
        ("Zoe saw Paris.", "La casa Parisio es zoe.", "es", {}),  # a name by its capital, and one that is copied
        ("Well.", "Bienoso. Otrora es un L'avo", "es", {"Bienoso": 1, "Otrora": 1, "avo": 1}),
        ("The house.", "Das Hauser, Otto.", "de", {"Hauser": 1, "Otto": 1}),
        ("My iPhone 3.", "我的 iPhone 和 housing 3。", "zh", {"housing": 1}),
    ],
)
def test_words_that_neither_source_nor_corpora_have_are_counted(
    source: str, translation: str, target: str, expected: dict[str, int]
) -> None:
    assert non_words([source], [translation], target, KNOWN) == Counter(expected)


@pytest.mark.skipif(shutil.which("hunspell") is None, reason="hunspell is not installed")
def test_an_unreadable_dictionary_is_an_error() -> None:
    with pytest.raises(OSError, match="hunspell"):
        misspelt(["word"], "no_SUCH")


def test_without_hunspell_a_dictionary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="hunspell is not installed"):
        misspelt(["word"], "es_ES")
