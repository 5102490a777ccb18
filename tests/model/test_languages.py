"""model/languages.py: names of languages, the spacing between their sentences, and end marks."""

from __future__ import annotations

import pytest

from model.languages import ends_sentence, full_stop, is_traditional, joint, language_name, served_code, spacing


@pytest.mark.parametrize(
    ("code", "name"),
    [("en", "English"), ("zh-Hant", "Chinese (traditional)"), ("en-GB", "English"), ("fr_CA", "French"), ("q", "q")],
)
def test_code_has_its_name_its_languages_name_or_itself(code: str, name: str) -> None:
    assert language_name(code) == name


@pytest.mark.parametrize(
    ("source", "target", "space"),
    [("zh", "en", " "), ("zh-Hans", "fr", " "), ("zh", "ja", ""), ("en", "zh", ""), ("en", "fr", "")],
)
def test_joined_sentences_get_a_space_if_the_target_language_uses_one(source: str, target: str, space: str) -> None:
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
def test_space_between_sentences_is_the_targets_and_other_white_space_the_sources(
    gap: str, source: str, target: str, left: str
) -> None:
    assert spacing(gap, source, target) == left


@pytest.mark.parametrize(
    ("wanted", "served", "code"),
    [
        ("EN", ["fr", "en"], "en"),
        ("fr-FR", ["en", "fr"], "fr"),
        ("fr_CA", ["fr", "fr-CA"], "fr-CA"),
        ("pt_BR", ["pt", "pt-BR"], "pt-BR"),
        ("pt_BR", ["pt"], "pt"),
        ("pb", ["pt"], "pt"),
        ("pb", ["pt", "pt-BR"], "pt-BR"),
        ("pt", ["pt-BR"], "pt-BR"),
        ("pt-PT", ["pt-BR"], None),
        ("zh-CN", ["zh"], "zh"),
        ("zh-Hans-CN", ["zh"], "zh"),
        ("zh-CN", ["zh-Hant", "zh-Hans"], "zh-Hans"),
        ("zh_TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh-Hant-HK", ["zh", "zh-TW"], "zh-TW"),
        ("zh-TW", ["zh"], "zh"),
        ("zh-TW", ["zh-Hans"], None),
        ("zh-Hans", ["zh-CN"], "zh-CN"),
        ("zt", ["zh", "zh-Hant"], "zh-Hant"),
        ("zh", ["zh-Hans"], "zh-Hans"),
        ("en", ["EN"], "EN"),
        ("fra", ["fr"], "fr"),
        ("fra_Latn", ["fr"], "fr"),
        ("zho_Hant", ["zh", "zh-TW"], "zh-TW"),
        ("en", ["eng"], "eng"),
        ("iw", ["en", "he"], "he"),
        ("he", ["iw"], "iw"),
        ("nb", ["no"], "no"),
        ("no", ["nb"], "nb"),
        ("nn", ["no"], None),
        ("es-419", ["es"], "es"),
        ("xyz", ["en"], None),
        ("e", ["en"], None),
        ("", ["en"], None),
        ("en", [], None),
    ],
)
def test_code_matches_in_any_spelling_and_without_its_region(wanted: str, served: list[str], code: str | None) -> None:
    assert served_code(wanted, served) == code


def test_exact_code_is_preferred() -> None:
    codes = ["en", "en-GB", "EN-gb", "pt", "pb", "zh", "zh-Hans", "zh-CN"]
    for code in codes:
        assert served_code(code, codes) == code


@pytest.mark.parametrize(
    ("code", "traditional"),
    [("zh-Hant", True), ("zh_TW", True), ("zt", True), ("zh", False), ("zh-CN", False), ("en-TW", False)],
)
def test_region_implies_the_script_of_chinese(code: str, traditional: bool) -> None:
    assert is_traditional(code) is traditional


@pytest.mark.parametrize("sentence", ["Yes.", "Who?", "“No!”", "(So it is.)", "好。", "「好。」", "Well…", "क्या।"])
def test_these_end_sentences(sentence: str) -> None:
    assert ends_sentence(sentence)


@pytest.mark.parametrize("sentence", ["", "My house", "Name:", "v1.2", "(c)", "one,", "Mr. Smith"])
def test_these_do_not_end_sentences(sentence: str) -> None:
    assert not ends_sentence(sentence)


def test_every_full_stop_is_an_end_mark() -> None:
    for language in ("en", "fr", "zh", "zh-Hant", "ja", "hi", "pt_BR"):
        assert ends_sentence("x" + full_stop(language))
    assert full_stop("th") == ""
