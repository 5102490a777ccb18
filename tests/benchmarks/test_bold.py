"""The cases of benchmarks.bold, and what it says of their translations."""

from __future__ import annotations

import pytest

from benchmarks.bold import Case, Counts, cases, judge, lexicon

RED = Case("I like red & green apples.", 7, 10, frozenset({"rot", "rote"}))


def test_the_lexicon_has_single_words_in_small_letters() -> None:
    pairs = [("Red", "Rot"), ("red", "rote"), ("Save file", "Sichern"), ("Apple.", "Apfel."), ("2", "zwei")]
    assert lexicon(pairs, "en", "de") == {"red": {"rot", "rote"}, "apple": {"apfel"}}
    assert lexicon([("Apple", "苹果"), ("tree", "两棵 树")], "en", "zh") == {"apple": {"苹果"}}


def test_a_case_has_its_word_once_and_a_word_few_cases() -> None:
    known = {"red": {"rot"}}
    texts = ["A red car and a red house.", "Red is nice.", "Redder is not red.", "A red one.", "Reds.", "One red more."]
    found = list(cases(texts, known, "en"))
    assert [case.text[case.start : case.end] for case in found] == ["Red", "red", "red"]
    assert [case.text for case in cases(["我有苹果。", "苹果苹果"], {"苹果": {"apple"}}, "zh")] == ["我有苹果。"]


def test_the_word_is_bold_in_html() -> None:
    assert RED.html == "I like <b>red</b> &amp; green apples."


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("Ich mag <b>rote</b> &amp; grüne Äpfel.", Counts(exact=1)),
        ("Ich mag<b> rote</b> &amp; grüne Äpfel.", Counts(exact=1)),
        ("Ich mag rote &amp; <b>grüne</b> Äpfel.", Counts(missed=1)),
        ("Ich mag <b>rote &amp; grüne</b> Äpfel.", Counts(with_neighbour=1)),
        ("Ich mag <b>rot</b>e &amp; grüne Äpfel.", Counts(with_neighbour=1)),
        ("Ich mag <b>bunte</b> &amp; grüne Äpfel.", None),
        ("Rote, <b>rote</b> Äpfel.", None),
    ],
)
def test_what_is_bold(translation: str, expected: Counts | None) -> None:
    assert judge(RED, translation, "de") == expected


def test_ideographs_are_compared_by_characters() -> None:
    case = Case("I eat an apple.", 9, 14, frozenset({"苹果"}))
    assert judge(case, "我吃一个<b>苹果</b>。", "zh") == Counts(exact=1)
    assert judge(case, "我吃一<b>个苹果</b>。", "zh") == Counts(with_neighbour=1)
