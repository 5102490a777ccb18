"""Language detection: which languages are detected, with what confidence, and what is ignored."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.text.language_id import MAX_CHUNK_CHARS, MAX_CHUNKS, Detected, Detector, text_chunks
from model.languages import language_name

SERVED = ["en", "fr", "de", "es", "zh"]
SENTENCES = {
    "en": "The bus to the airport leaves every twenty minutes.",
    "fr": "Le bus pour l'aéroport part toutes les vingt minutes.",
    "de": "Der Bus zum Flughafen fährt alle zwanzig Minuten ab.",
    "es": "El autobús al aeropuerto sale cada veinte minutos.",
    "zh": "开往机场的巴士每二十分钟一班。",
}
FOREIGN = {
    "Dutch": "De bus naar de luchthaven vertrekt elke twintig minuten.",
    "Italian": "L'autobus per l'aeroporto parte ogni venti minuti.",
    "Portuguese": "O ônibus para o aeroporto sai a cada vinte minutos.",
    "Polish": "Autobus na lotnisko odjeżdża co dwadzieścia minut.",
    "Russian": "Автобус в аэропорт отправляется каждые двадцать минут.",
    "Greek": "Το λεωφορείο για το αεροδρόμιο φεύγει κάθε είκοσι λεπτά.",
    "Japanese": "空港行きのバスは二十分おきに出ます。",
    "Cherokee": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ",
}


@pytest.fixture(scope="session")
def detector_of() -> Callable[..., Detector]:
    """A language detector with libraries that are already loaded."""
    loaded = Detector(SERVED)
    loaded.detect(SENTENCES["en"])

    return lambda *languages: loaded.for_languages(languages)


@pytest.mark.parametrize("language", SENTENCES)
def test_the_language_of_a_sentence_is_detected_with_confidence(
    detector_of: Callable[..., Detector], language: str
) -> None:
    found = detector_of(*SERVED).detect(SENTENCES[language])
    assert found.language == language
    assert found.confidence > 0.98


@pytest.mark.parametrize("language", FOREIGN)
def test_confidence_is_low_in_a_language_not_served(detector_of: Callable[..., Detector], language: str) -> None:
    found = detector_of(*SERVED).detect(FOREIGN[language])
    assert found.language in SERVED
    assert found.confidence < 0.2


@pytest.mark.parametrize("language", FOREIGN)
def test_unserved_language_is_named(detector_of: Callable[..., Detector], language: str) -> None:
    found, confidence = detector_of("en", "fr").likeliest(FOREIGN[language])
    assert language_name(found or "") == ("" if language == "Cherokee" else language)
    assert confidence > 0.9 or language == "Cherokee"


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("en", "Hello|Hi|Save|Delete|Cancel|Log in|File|Edit|Password"),
        ("fr", "Bonjour|Merci|Oui|Annuler|Supprimer|Enregistrer"),
        ("de", "Hallo|Danke|Ja|Abbrechen|Löschen|Speichern"),
        ("es", "Hola|Gracias|Sí|Cancelar|Eliminar|Guardar"),
        ("zh", "你好|谢谢|取消|删除|保存"),
    ],
)
def test_common_user_interface_labels_are_detected(
    detector_of: Callable[..., Detector], language: str, texts: str
) -> None:
    for text in texts.split("|"):
        found = detector_of(*SERVED).detect(text)
        assert (found.language, found.confidence > 0.5) == (language, True), text


@pytest.mark.parametrize("language", ["de", "es", "zh"])
def test_confidence_depends_on_the_served_languages(detector_of: Callable[..., Detector], language: str) -> None:
    assert detector_of("en", "fr").detect(SENTENCES[language]).confidence < 0.05
    assert detector_of("en", language).detect(SENTENCES[language]).confidence > 0.98


@pytest.mark.parametrize("text", ["no", "OK", "Tom", "a", "xyzzy", "ga ga ga", "nuq neH tlhIngan maH"])
def test_confidence_is_low_for_little_text(detector_of: Callable[..., Detector], text: str) -> None:
    assert detector_of(*SERVED).detect(text).confidence < 0.8


@pytest.mark.parametrize(
    "text",
    ["", " \n", "123 + 4.5", "...", "😀", "https://example.org/the/house", "ann@example.org", "{name}", "%(count)d"],
)
def test_text_without_words_has_no_language(detector_of: Callable[..., Detector], text: str) -> None:
    assert detector_of(*SERVED).detect(text) == Detected(None, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        '<p class="the-house-of-the-people">Le chat <b>dort</b> bien.</p>',
        "Le chat dort. https://example.org/the-house-of-the-people/is/where/they/are",
        "{the house of the people} le chat dort %(where they are all the time)s bien",
        "Le chat dort bien. the_house_of_the_people_is_where_they_are theHouseOfThePeople.txt",
        "Le chat dort : `for (int i = 0; the house of the people; i++) { where they are }`",
        "12.34 Le 5 chat 678 dort &nbsp; 90 bien !!!",
    ],
)
def test_labels_that_are_not_languages_do_not_count(detector_of: Callable[..., Detector], text: str) -> None:
    found = detector_of("en", "fr").detect(text)
    assert found.language == "fr"
    assert found.confidence > 0.9


def test_mixed_text_is_in_its_main_language_with_its_share_as_confidence(
    detector_of: Callable[..., Detector],
) -> None:
    english, french, chinese = (SENTENCES[language] for language in ("en", "fr", "zh"))
    detector = detector_of(*SERVED)
    for text in (f"{french} {french} {english}", f"{french} {chinese} {french}"):
        found = detector.detect(text)
        assert found.language == "fr"
        assert 0.5 < found.confidence < 0.8


def test_end_of_a_long_text_counts_like_its_beginning(detector_of: Callable[..., Detector]) -> None:
    detector = detector_of(*SERVED)
    text = SENTENCES["en"] * 200 + SENTENCES["de"] * 400
    found = detector.detect(text)
    assert found.language == "de"
    assert 0.5 < found.confidence < 0.8


@pytest.mark.parametrize(
    ("text", "language"),
    [("안녕하세요", "ko"), ("おはよう", "ja"), ("東京へ行く", "ja"), ("สวัสดี", "th"), ("ሰላም", "am")],
)
def test_letters_of_a_single_language_suffice(text: str, language: str) -> None:
    detector = Detector(["en", "zh", "ko", "ja", "th"])
    if language in ("ko", "ja", "th"):
        assert detector.detect(text) == (language, 1.0)
    else:
        assert detector.detect(text).confidence == 0.0
    assert not detector.ready, "nothing had to be loaded"


@pytest.mark.parametrize(
    ("codes", "text", "code"),
    [
        (["zh-Hans", "zh-Hant"], "我们学习汉语", "zh-Hans"),
        (["zh-Hans", "zh-Hant"], "我們學習漢語", "zh-Hant"),
        (["zh-TW", "zh"], "我们学习汉语", "zh"),
        (["zh-TW", "zh"], "我們學習漢語", "zh-TW"),
        (["zh-Hant"], "我们学习汉语", "zh-Hant"),
        (["en-GB", "en-US"], "Good morning, everybody!", "en-GB"),
        (["nb"], "God morgen, alle sammen!", "nb"),
    ],
)
def test_codes_with_a_region_or_a_script_are_returned_as_served(
    detector_of: Callable[..., Detector], codes: list[str], text: str, code: str
) -> None:
    found = detector_of("fr", *codes).detect(text)
    assert found.language == code
    assert found.confidence > 0.5


def test_language_unknown_to_the_libraries_does_no_harm(detector_of: Callable[..., Detector]) -> None:
    assert detector_of("tlh", "fr").detect(SENTENCES["fr"]).language == "fr"
    assert detector_of("tlh").detect(SENTENCES["fr"]).language == "tlh"
    assert detector_of("tlh").detect(SENTENCES["fr"]).confidence < 0.2


@example(text="A\ud800")
@given(text=st.text(st.characters(codec=None, categories=None)) | st.text("aé{<%/@你あ \n.", max_size=2000))
def test_any_text_has_a_served_language_or_none_and_a_probability(
    detector_of: Callable[..., Detector], text: str
) -> None:
    language, confidence = detector_of(*SERVED).detect(text)
    assert language in SERVED or (language is None and confidence == 0.0)
    assert 0.0 <= confidence <= 1.0
    assert language is None or any(character.isalpha() for character in text)


@pytest.mark.parametrize(
    "unit", ["a", "<", "{", "a/", "%(", "a_", "://", "x@", "aA", "`", "&#", "你", "あa", "\n", "a."]
)
def test_every_text_is_detected_in_time(detector_of: Callable[..., Detector], unit: str) -> None:
    """Counts rather than times: few characters reach the libraries, whatever the length."""
    detector, read = detector_of(*SERVED), 0

    def trace(frame: object, event: str, argument: object) -> None:
        nonlocal read
        read += event == "call"

    sys.setprofile(trace)
    try:
        detector.detect(unit * 50_000)
    finally:
        sys.setprofile(None)
    assert read < 10_000


def test_libraries_are_loaded_on_first_use() -> None:
    detector = Detector(["en", "ja"])
    assert not detector.ready
    detector.detect("Good morning")
    assert detector.ready


def test_a_long_text_is_read_at_its_beginning_at_its_end_and_between() -> None:
    words = [f"{'abcdefghij'[number % 10]}{'klmnopqrst'[number // 10 % 10]}" for number in range(MAX_CHUNK_CHARS * 20)]
    chunks = list(text_chunks("start " + " ".join(words) + " end"))
    assert len(chunks) == MAX_CHUNKS
    assert chunks[0].startswith("start ") and chunks[-1].endswith(" end")
    assert min(map(len, chunks)) > MAX_CHUNK_CHARS - 4
