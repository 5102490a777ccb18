"""The language is chosen among those that reach the target, and others are named."""

from __future__ import annotations

import pytest

from app.text.language_id import Detector, Libraries
from app.translation.source_language import CONFIDENT_PROBABILITY, IMPLAUSIBLE_PROBABILITY, SourceLanguages

PAIRS = ["de-en", "en-de", "en-es", "en-fr", "en-zh", "es-en", "fr-en", "zh-en"]
LIBRARIES = Libraries()


def languages(target: str, *pairs: str) -> SourceLanguages:
    parts = [pair.split("-") for pair in pairs or PAIRS]
    sources = [source for source, into in parts if into == target]
    return SourceLanguages(sources, Detector({code for pair in parts for code in pair}, LIBRARIES), target)


@pytest.mark.parametrize(
    ("text", "target", "language"),
    [
        ("Hello", "fr", "en"),
        ("Hello", "es", "en"),
        ("Hello!", "zh", "en"),
        ("Save", "fr", "en"),
        ("Delete", "de", "en"),
        ("Cancel", "es", "en"),
        ("Bonjour", "en", "fr"),
        ("Enregistrer", "en", "fr"),
        ("Hallo", "en", "de"),
        ("Abbrechen", "en", "de"),
        ("Hola", "en", "es"),
        ("Guardar", "en", "es"),
        ("你好", "en", "zh"),
        ("保存", "en", "zh"),
        ("Bonjour", "fr", "fr"),
        ("Hallo", "de", "de"),
    ],
)
def test_greetings_and_labels_are_detected_with_certainty(text: str, target: str, language: str) -> None:
    chosen = languages(target).choose(text)
    assert chosen.detected.language == language
    assert chosen.detected.confidence >= CONFIDENT_PROBABILITY
    assert chosen.warnings == ()


@pytest.mark.parametrize(
    "text",
    ["OK", "Menu", "Tom", "Hola", "Hallo", "Bonjour", "Buongiorno", "José García Márquez", "Привет", "你好", "xyz"],
)
@pytest.mark.parametrize("target", ["en", "fr", "de", "es", "zh"])
def test_short_text_is_never_refused(text: str, target: str) -> None:
    detected, warnings, error = languages(target).choose(text)
    assert error is None
    reaching = {pair.split("-")[0] for pair in PAIRS if pair.endswith(f"-{target}")}
    assert detected.language in {*reaching, target}
    assert len(warnings) == (detected.confidence < CONFIDENT_PROBABILITY)


@pytest.mark.parametrize(
    ("text", "target", "name"),
    [
        ("Questa è una frase in italiano.", "fr", "Italian"),
        ("Questa è una frase in italiano.", "en", "Italian"),
        ("Das ist ein Haus.", "fr", "German"),
        ("¿Dónde está la biblioteca?", "fr", "Spanish"),
        ("今日はいい天気ですね", "fr", "Japanese"),
        ("이것은 한국어 문장입니다.", "en", "Korean"),
        ("Это предложение на русском языке.", "en", "Russian"),
    ],
)
def test_text_clearly_in_an_unserved_source_language_is_refused_by_name(text: str, target: str, name: str) -> None:
    detected, _, error = languages(target).choose(text)
    assert error
    assert error.detail.startswith(f"The text looks {name}, which is not translated into ")
    assert detected.confidence < IMPLAUSIBLE_PROBABILITY


def test_short_text_in_an_unserved_language_gets_a_warning_by_name() -> None:
    [warning] = languages("fr").choose("Buongiorno").warnings
    assert warning.startswith("The text looks Italian, which is not translated into French here. It was taken for ")
    [warning] = languages("fr").choose("Kia ora").warnings
    assert warning == "Taken for English, but that is not sure."


def test_only_a_text_without_words_has_no_language() -> None:
    for text in ("123", "{name}", " "):
        assert languages("fr").choose(text) == ((None, 0.0), (), None)
