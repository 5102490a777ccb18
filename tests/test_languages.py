"""Names of languages, and what stands between their sentences."""

from __future__ import annotations

import pytest

from model.languages import joint, language_name, spacing


@pytest.mark.parametrize(
    ("code", "name"),
    [("en", "English"), ("zh-Hant", "Chinese (traditional)"), ("en-GB", "English"), ("fr_CA", "French"), ("q", "q")],
)
def test_a_code_has_its_name_or_its_language_s_or_itself(code: str, name: str) -> None:
    assert language_name(code) == name


@pytest.mark.parametrize(
    ("source", "target", "space"),
    [("zh", "en", " "), ("zh-Hans", "fr", " "), ("zh", "ja", ""), ("en", "zh", ""), ("en", "fr", "")],
)
def test_sentences_that_stood_without_a_space_get_one_where_the_target_wants_it(
    source: str, target: str, space: str
) -> None:
    assert joint(source, target) == space


@pytest.mark.parametrize(
    ("gap", "source", "target", "left"),
    [
        (" ", "en", "zh", ""),
        ("  ", "fr", "zh-Hans", ""),
        (" ", "en", "ja", ""),
        (" ", "en", "th", " "),
        (" ", "en", "fr", " "),
        (" ", "zh", "ja", " "),
        (" ", "zh", "en", " "),
        ("\u3000", "zh", "en", " "),
        ("\u3000", "zh", "ja", "\u3000"),
        ("\n", "en", "zh", "\n"),
        ("\t", "en", "zh", "\t"),
        ("   ", "en", "zh", "   "),
    ],
)
def test_the_space_between_sentences_is_the_target_s_and_any_other_white_space_the_text_s(
    gap: str, source: str, target: str, left: str
) -> None:
    assert spacing(gap, source, target) == left
