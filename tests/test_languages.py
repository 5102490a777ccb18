"""Names of languages, and what stands between their sentences."""

from __future__ import annotations

import pytest

from app.languages import joint, language_name


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
