"""Quality of translations: the estimate of each sentence, doubtful words, and what the operator's limit does."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import httpx
import pytest
from fakes import FakeDecoder
from hypothesis import given
from hypothesis import strategies as st

from app.api.schemas.translation import StreamedPart, TranslateResponse
from app.engine import sequence as engine
from app.engine.registry import Catalogue
from app.engine.sequence import Decoded
from app.settings import Settings
from app.translation import word_quality
from app.translation.translator import Translator
from app.translation.types import Options, TranslatedPart, TranslatedText
from model.bundle import Bundle
from model.quality import DOUBTFUL_WORD, LogisticModel, QualityModel

MODEL = QualityModel(LogisticModel(-1.9, (3.6, -1.4, 0.5, 0.0, 0.0, 0.0)), LogisticModel(0.3, (0.5, -0.7)))
SURE, UNSURE = -0.05, -6.0


class Doubting(FakeDecoder):
    """Translates each sentence into itself; is unsure of the tokens whose text has `doubted` in it."""

    def __init__(self, bundle: Bundle, doubted: str) -> None:
        self.tokenizer, self.doubted = bundle.target_tokenizer, doubted

    def answer(self, sequence: engine.Sequence) -> Decoded:
        tokens = (*sequence.source, self.tokenizer.eos_id)
        texts = self.tokenizer.token_texts(tokens)
        log_probs = tuple(UNSURE if text.strip() and text.strip() in self.doubted else SURE for text in texts)
        return Decoded(tokens, log_probs, "stop", tuple(range(len(tokens))), (1.0,) * len(tokens))


@pytest.fixture(scope="module")
def calibrated(bundle: Bundle) -> Bundle:
    return dataclasses.replace(bundle, config={**bundle.config, "quality": {"en-fr": MODEL.to_dict()}})


def _translator(bundle: Bundle, doubted: str, seen: list[float] | None = None, **settings: Any) -> Translator:
    observe = (lambda _, quality: None) if seen is None else (lambda _, quality: seen.append(quality))
    return Translator(Catalogue([bundle]), Doubting(bundle, doubted), Settings(**settings), observe_quality=observe)


def _translate(translator: Translator, text: str, **options: Any) -> TranslatedText:
    return asyncio.run(translator.translate([text], Options("en", "fr", **options))).items[0]


def test_without_calibration_there_is_no_quality(bundle: Bundle) -> None:
    done = _translate(_translator(bundle, "cat"), "the cat sleeps")
    assert done.quality is None
    assert not done.words


def test_the_quality_of_a_text_is_its_weakest_sentences(calibrated: Bundle) -> None:
    seen: list[float] = []
    translator = _translator(calibrated, "cat", seen)
    done = _translate(translator, "how are you\nthe cat sleeps")
    assert len(seen) == 2
    assert done.quality == min(seen) < max(seen)


def test_copied_text_has_no_quality(calibrated: Bundle) -> None:
    assert _translate(_translator(calibrated, ""), "42\n").quality is None


def test_doubtful_words_are_those_of_unsure_tokens(calibrated: Bundle) -> None:
    done = _translate(_translator(calibrated, "cat"), "how are you\nthe cat sleeps")
    assert done.text is not None
    [word] = done.words
    assert done.text[slice(*word.span)] == "cat"
    assert word.probability < DOUBTFUL_WORD


@given(st.text("abc .,-\n<>b/{}", max_size=40))
def test_spans_of_words_are_words_of_the_text(calibrated: Bundle, text: str) -> None:
    done = _translate(_translator(calibrated, "abc.,-"), text)
    assert done.text is not None
    ends = [0]
    for start, end in (word.span for word in done.words):
        assert ends[-1] <= start < end <= len(done.text)
        assert done.text[start:end] == done.text[start:end].strip()
        ends.append(end)


def test_the_short_way_finds_the_same_words(calibrated: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "how are you\nthe cat sleeps and the cat is well"
    short = _translate(_translator(calibrated, "cat sleeps"), text).words
    monkeypatch.setattr(word_quality, "SPACE", "another text ")  # no translation begins so
    assert _translate(_translator(calibrated, "cat sleeps"), text).words == short
    assert len(short) >= 3


def test_html_has_a_quality_but_no_words(calibrated: Bundle) -> None:
    done = _translate(_translator(calibrated, "cat"), "<p>the cat sleeps</p>", html=True)
    assert done.quality is not None
    assert not done.words


def test_parts_of_a_stream_have_their_own_quality_and_words(calibrated: Bundle) -> None:
    async def parts() -> list[TranslatedPart]:
        stream = _translator(calibrated, "cat").stream(["how are you\n the cat sleeps"], Options("en", "fr"))
        return [part async for part in stream if isinstance(part, TranslatedPart)]

    first, second = asyncio.run(parts())
    assert first.quality is not None and second.quality is not None
    assert second.quality < first.quality
    assert not first.words
    assert [second.text[slice(*word.span)] for word in second.words] == ["cat"]


def test_a_weak_translation_gets_a_warning(calibrated: Bundle) -> None:
    text = "how are you\nthe cat sleeps"
    weak = _translate(_translator(calibrated, "cat"), text).quality
    assert weak is not None
    done = _translate(_translator(calibrated, "cat", min_quality=weak + 0.01), text)
    assert done.text == text
    assert f"Check this sentence: its translation has a quality of {weak:.2f}." in done.warnings
    assert not any("Check" in warning for warning in _translate(_translator(calibrated, "cat"), text).warnings)


def test_a_weak_translation_is_left_out_if_the_operator_wants(calibrated: Bundle) -> None:
    class Shouting(Doubting):
        def answer(self, sequence: engine.Sequence) -> Decoded:
            decoded = super().answer(sequence)
            if UNSURE not in decoded.log_probs:
                return decoded
            bad = tuple(self.tokenizer.encode("le chat dort"))
            return Decoded((*bad, self.tokenizer.eos_id), (UNSURE,) * (len(bad) + 1), "stop", (0,) * (len(bad) + 1), ())

    settings = Settings(min_quality=0.5, low_quality="source")
    translator = Translator(Catalogue([calibrated]), Shouting(calibrated, "cat"), settings)
    done = _translate(translator, "how are you\nthe cat sleeps", alignment=True)
    assert done.text == "how are you\nthe cat sleeps"
    assert any(warning.startswith("Left as it was: its translation has a quality of 0.") for warning in done.warnings)
    assert done.alignment is not None
    assert all(pair.source[1] <= len("how are you") for pair in done.alignment)
    assert not done.words


def test_streamed_parts_have_the_documented_fields(shipped_url: str) -> None:
    body = {"text": "Hello. The defendant dismissed the crane.", "source": "en", "target": "fr"}
    answer = httpx.post(f"{shipped_url}/translate/stream", json=body)
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    *parts, done = map(json.loads, events)
    assert all(StreamedPart.model_validate(part).model_dump(mode="json") == part for part in parts)
    [translation] = TranslateResponse.model_validate(done).translations
    assert translation.quality == min(part["quality"] for part in parts)
    lengths = [0, len(parts[0]["text"])]
    words = [
        (word["span"][0] + at, word["probability"])
        for part, at in zip(parts, lengths, strict=True)
        for word in part["words"]
    ]
    assert words
    assert [(word.span[0], word.probability) for word in translation.words] == words
