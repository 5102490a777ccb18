"""model/language_names.py: languages by their names in English, in Chinese and in themselves."""

from __future__ import annotations

import re

import pytest

from model.language_names import LANGUAGE_NAME, language_named
from model.languages import NAMES

NAMED = {
    "Simplified Chinese": "zh-Hans",
    "Chinese (Simplified)": "zh-Hans",
    "Simplified-Chinese": "zh-Hans",
    "Simplified Mandarin Chinese": "zh-Hans",
    "Chinese (Traditional)": "zh-Hant",
    "中文": "zh",
    "简体中文": "zh-Hans",
    "繁體中文": "zh-Hant",
    "中文（繁體）": "zh-Hant",
    "英语": "en",
    "日文": "ja",
    "葡萄牙语": "pt",
    "french": "fr",
    "Français": "fr",
    "한국어": "ko",
    "हिन्दी": "hi",
    "Tiếng Việt": "vi",
    "Norsk bokmål": "nb",
    "American English": "en",
    "English (US)": "en",
    "Portuguese (Brazil)": "pt-BR",
    "Brazilian Portuguese": "pt-BR",
    "Swahili (individual language)": "sw",
    "Modern Greek (1453-)": "el",
}


@pytest.mark.parametrize(("name", "code"), NAMED.items())
def test_a_name_has_its_code(name: str, code: str) -> None:
    assert language_named(f" {name} ") == code
    assert (found := re.search(LANGUAGE_NAME, f"into {name}, please", re.IGNORECASE))
    assert found[0] == name


@pytest.mark.parametrize("code", NAMES)
def test_every_english_name_has_its_code(code: str) -> None:
    assert language_named(NAMES[code]) == code


@pytest.mark.parametrize(
    ("code", "named"),
    [("fr", "fr"), ("zh-CN", "zh-CN"), ("pt_BR", "pt_BR"), ("EN-us", "EN-us"), ("fra", "fr"), ("ger", "de")],
)
def test_a_code_stays_and_three_letters_become_two(code: str, named: str) -> None:
    assert language_named(code) == named


@pytest.mark.parametrize("text", ["", "Klingon", "Germany", "xx", "detected language", "French and German", "auto"])
def test_other_texts_name_no_language(text: str) -> None:
    assert language_named(text) is None


@pytest.mark.parametrize("text", ["Germany", "the Frenchman", "zh"])
def test_a_name_within_a_word_is_none(text: str) -> None:
    assert re.search(LANGUAGE_NAME, text, re.IGNORECASE) is None
