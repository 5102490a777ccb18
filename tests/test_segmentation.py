"""Text falls into sentences and the rest, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.segmentation import WINDOW, cut, segments

LANGUAGES = st.sampled_from(["en", "fr", "zh", "ja", "el", "am", "ar", "xx"])
PROSE = st.lists(
    st.sampled_from(list(" .?!\n\r\t\"'()[]«»“”*-1aAéM。！？…:;,\u0301\u200d\ufeff\x00\x85\xa0\u2028\u3000😀"))
    | st.sampled_from(["Mr.", "M. ", "[1]", "1) ", "i. ", "\n\n", "\r\n", "p.m. ", "U.S. ", "Hello. ", "你好。"])
    | st.characters(exclude_categories=["Cs"])
).map("".join)


def sentences(text: str, language: str) -> list[str]:
    return [segment.text for segment in segments(text, language) if segment.translate]


@given(PROSE, LANGUAGES)
def test_the_segments_joined_are_the_text(text: str, language: str) -> None:
    assert "".join(segment.text for segment in segments(text, language)) == text


@given(PROSE, LANGUAGES)
def test_a_sentence_has_something_to_translate_and_no_white_space_around(text: str, language: str) -> None:
    for segment in segments(text, language):
        assert segment.text
        assert segment.translate == any(character.isalnum() for character in segment.text)
        assert not segment.translate or segment.text == segment.text.strip()


def test_lines_without_a_letter_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(language: str, text: str) -> list[str]:
        raise AssertionError(text)

    monkeypatch.setattr("sentencex.segment", refuse)
    text = "* * *\n---\r\n😀\n" * 100
    assert segments(text, "en") == [(text, False)]


@given(PROSE, LANGUAGES)
def test_no_sentence_crosses_a_line(text: str, language: str) -> None:
    assert all(len(sentence.splitlines()) == 1 for sentence in sentences(text, language))


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Mr. Smith met Dr. Jones at 3 p.m. in the U.S. Embassy."),
        ("en", "It weighs approx. 5 kg, says vol. 2."),
        ("fr", "M. Dupont et Mme. Martin ont vu le Dr. Durand."),
        ("fr", "Voir l'art. L. 3, no. 5, av. J.-C. Martin."),
    ],
)
def test_an_abbreviation_ends_no_sentence(language: str, text: str) -> None:
    assert sentences(text, language) == [text]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Hello.  How are you?\tFine!\r\n\r\n  Bye.", ["Hello.", "How are you?", "Fine!", "Bye."]),
        ("fr", "Il dort. M. Dupont arrive !", ["Il dort.", "M. Dupont arrive !"]),
        ("zh", "你好。我很好！", ["你好。", "我很好！"]),
        ("en", "*** \n😀\n--\n?", []),
        ("en", " \u00a0 ", []),
        ("en", "", []),
    ],
)
def test_sentences_are_found(language: str, text: str, expected: list[str]) -> None:
    assert sentences(text, language) == expected


def test_a_long_line_falls_into_the_same_sentences_as_short_ones() -> None:
    text = "The cat sleeps here. Does it? " * 1_000
    assert sentences(text, "en") == ["The cat sleeps here.", "Does it?"] * 1_000


def test_a_sentence_without_an_end_is_cut_at_spaces() -> None:
    parts = sentences("word " * WINDOW, "en")
    assert len(parts) > 1
    assert set(" ".join(parts).split()) == {"word"}


@given(PROSE.map(str.strip), st.integers(1, 20))
def test_cutting_loses_nothing_and_keeps_the_limit(sentence: str, limit: int) -> None:
    parts = cut(sentence, len, limit)
    assert "".join(part.text for part in parts) == sentence
    assert all(len(part.text) <= limit for part in parts if part.translate)


def test_a_sentence_within_the_limit_is_not_cut() -> None:
    assert [part.text for part in cut("one, two", len, 8)] == ["one, two"]


def test_a_cut_prefers_a_clause_mark_to_a_space_and_a_space_to_the_middle_of_a_word() -> None:
    assert [p.text for p in cut("one two three, four five", len, 20)] == ["one two three,", " ", "four five"]
    assert [p.text for p in cut("one two three four", len, 12)] == ["one two", " ", "three four"]
    assert [p.text for p in cut("abcdefgh", len, 4)] == ["abcd", "efgh"]


def test_a_character_over_the_limit_by_itself_is_copied() -> None:
    parts = cut("ab", lambda text: 4 * len(text), 3)
    assert [(part.text, part.translate) for part in parts] == [("a", False), ("b", False)]
