"""Short texts of greetings and user interfaces have known languages, and longer texts do not."""

from __future__ import annotations

import pytest

from app.text.short_texts import MAX_WORDS, listed_shares


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("Hello", {"en"}),
        ("HELLO!", {"en"}),
        ("Log in…", {"en"}),
        ("S’il vous plaît", {"fr"}),
        ("Menu", {"en", "fr", "it", "pt", "nl"}),
        ("¡Hola!", {"es"}),
        ("xyzzy", set()),
        ("", set()),
        ("123", set()),
    ],
)
def test_listed_text_is_recognised_in_any_case_and_punctuation(text: str, languages: set[str]) -> None:
    assert listed_shares(text) == dict.fromkeys(languages, 1.0)


def test_partly_listed_texts_count_in_part() -> None:
    assert listed_shares("Hello Tom") == {"en": 0.5}
    assert listed_shares("Hallo Tom") == {"de": 0.5, "nl": 0.5}


def test_longer_text_is_not_looked_up() -> None:
    assert listed_shares("hello " * MAX_WORDS)
    assert listed_shares("hello " * (MAX_WORDS + 1)) == {}
    assert listed_shares("hello" * 10_000) == {}
