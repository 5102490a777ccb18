"""Text in another language than stated causes a warning, and so do a few copied words; names and numbers do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import CannedDecoder, translated
from msgspec import structs

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.text.language_id import Detector
from app.translation.language_checks import MAX_EXAMINED, LanguageChecks
from model.bundle import Bundle

CHECKS = LanguageChecks(Detector(["en", "fr", "de", "es", "zh"]))


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("Le chat dort sur la chaise de la cuisine.", "en", "French"),
        ("Die Katze schläft auf dem Stuhl in der Küche.", "fr", "German"),
        ("The cat sleeps on the chair in the kitchen.", "fr", "English"),
        ("Il gatto dorme sulla sedia in cucina.", "en", "Italian"),
        ("我明天要去图书馆看书。", "en", "Chinese"),
        ("Это предложение на русском языке.", "en", "Russian"),
        ("Enregistrer", "en", "French"),
        ("Abbrechen", "en", "German"),
        ("Gracias", "en-GB", "Spanish"),
    ],
)
def test_text_clearly_in_another_language_causes_a_warning(text: str, source: str, name: str) -> None:
    assert (CHECKS.other_language(text, source) or "").startswith(f"The text looks {name}, not ")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("The cat sleeps on the chair in the kitchen.", "en"),
        ("The cat sleeps on the chair in the kitchen.", "en-GB"),
        ("Le chat dort sur la chaise de la cuisine.", "fr"),
        ("我明天要去图书馆看书。", "zh"),
        ("José García Márquez", "en"),
        ("Giovanni Rossi", "en"),
        ("Save", "en"),
        ("OK", "en"),
        ("123 + 4", "en"),
        ("{name}", "en"),
        ("", "en"),
    ],
)
def test_text_in_the_right_language_or_a_name_causes_no_warning(text: str, source: str) -> None:
    assert CHECKS.other_language(text, source) is None


@pytest.mark.parametrize("text", ["Le chat dort bien sur la petite chaise.", "我明天要去图书馆看书。"])
def test_warning_about_another_language_is_in_the_response(bundle: Bundle, text: str) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda text: "va bien"), [text])
    name = "French" if text.isascii() else "Chinese"
    assert f"The text looks {name}, not English." in item.warnings


def test_text_with_a_confident_translation_is_not_examined(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sure(CannedDecoder):
        score: float

        def answer(self, sequence: engine.Sequence) -> Decoded:
            made = super().answer(sequence)
            return structs.replace(made, log_probs=(self.score,) * len(made.tokens))

    looked = list[str]()
    monkeypatch.setattr(LanguageChecks, "other_language", lambda self, text, source: looked.append(text))
    decoder = Sure(bundle, lambda text: "va bien")
    decoder.score = -0.5
    translated(bundle, decoder, ["The cat sleeps."])
    assert looked == []
    decoder.score = -0.7
    translated(bundle, decoder, ["The cat sleeps.", "How are you? " * 1000])
    assert looked[0] == "The cat sleeps. "
    assert 100 < len(looked[1]) <= 300


@pytest.mark.parametrize("text", ["the cat sleeps", "Delete", "Cancel", "Save settings", "Good morning", "Log in"])
def test_few_copied_words_cause_a_warning(bundle: Bundle, text: str) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle), [text])
    assert item.text == text
    assert item.warnings == [f"Copied rather than translated: “{text}”."]


@pytest.mark.parametrize(
    "text",
    ["Tom", "Harry Johnson", "Marie Curie, Paris", "Orientation", "Menu", "OK", "12 345", "{name}", "a_b", "C++"],
)
def test_copied_names_numbers_and_common_words_cause_no_warning(bundle: Bundle, text: str) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle), [text])
    assert (item.text, item.warnings) == (text, [])


def test_libraries_are_not_loaded_until_something_is_suspect() -> None:
    checks = LanguageChecks(Detector(["en", "fr"]))
    assert not checks.ready
    assert checks.other_language("안녕하세요, 반갑습니다.", "en")
    assert checks.ready


def test_shipped_vocabulary_distinguishes_words_from_names(shipped_en_fr: Bundle) -> None:
    words = ["Delete", "Secret key", "Tom", "Mary", "Boston", "Harry Johnson"]
    assert [word for word in words if CHECKS.is_untranslated(word, shipped_en_fr)] == ["Delete", "Secret key"]


@pytest.fixture(scope="module")
def shipped_en_fr() -> Bundle:
    import torch

    from model.bundle_weights import load_bundle

    return load_bundle(Path(__file__).parents[3] / "bundles" / "en-fr", torch.device("meta"))


def test_paragraph_in_another_language_is_reported_with_its_location(bundle: Bundle) -> None:
    english, french = "The cat sleeps on the chair.", "Le chat dort bien sur la petite chaise."
    text = f"{english}\n\n{french}\n{french}\n\n{english}\n{french}\n"

    def worse(text: str) -> str:
        return text if "chat" in text else "va bien"

    (item,) = translated(bundle, CannedDecoder(bundle, worse), [text])
    warning = "The text looks French, not English."
    first, second = text.index(french), text.rindex(french)
    assert [found for found in item.located_warnings if found[1] == warning] == [(first, warning), (second, warning)]
    assert item.warnings.count(warning) == 1


def test_split_sentence_is_reported_with_its_location(bundle: Bundle) -> None:
    long = " ".join(["the cat sleeps and"] * 12) + "."
    (item,) = translated(bundle, CannedDecoder(bundle), [f"Hello.\n\n{long}"])
    places = [offset for offset, warning in item.located_warnings if warning.startswith("A sentence of more than")]
    assert places == [len("Hello.\n\n")]


def test_at_most_two_hundred_paragraphs_of_a_text_are_examined(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand short lines took a second."""
    examined = list[str]()
    monkeypatch.setattr(LanguageChecks, "other_language", lambda self, text, source: examined.append(text))
    monkeypatch.setattr(LanguageChecks, "is_untranslated", lambda self, words, bundle: examined.append(words))
    text = "".join(f"word{number}\n" for number in range(500))
    translated(bundle, CannedDecoder(bundle), [text])
    assert 0 < len(examined) <= 2 * MAX_EXAMINED
