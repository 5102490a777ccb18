"""The hypothesis that addresses its reader as the request asks, with the bundles that ship."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from shared_fixtures import SHIPPED, Service, serving

from app.translation.formality import Formality, has_formality
from app.translation.types import Options

pytestmark = pytest.mark.slow

TEXTS = ["How are you?", "I believe in you."]


@pytest.fixture(scope="module", params=["de", "fr", "es"])
def shipped(request: pytest.FixtureRequest) -> Iterator[tuple[Service, str]]:
    with serving(SHIPPED / f"en-{request.param}") as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service, request.param


def translated(service: Service, target: str, texts: list[str], formality: Formality | None) -> list[str]:
    translator = service.state.deployments.current.translator
    done = service.run(translator.translate(texts, Options("en", target, formality=formality)))
    return [item.text for item in done.items]


def test_the_reader_is_addressed_as_asked(shipped: tuple[Service, str]) -> None:
    service, target = shipped
    less, more = {
        "de": (["dir", "dich"], ["Ihnen", "Sie"]),
        "fr": (["tu", "toi"], ["vous", "vous"]),
        "es": (["estás", "ti"], ["usted", "ustedes"]),
    }[target]
    asked: list[tuple[Formality, list[str], list[str]]] = [("less", less, more), ("more", more, less)]
    for formality, words, others in asked:
        for text, word, other in zip(translated(service, target, TEXTS, formality), words, others, strict=True):
            found = re.findall(r"\w+", text)
            assert word in found and other not in found, text


def test_a_text_that_addresses_nobody_is_translated_alike(shipped: tuple[Service, str]) -> None:
    service, target = shipped
    texts = ["They are right.", "The cat sleeps on the red chair."]
    assert translated(service, target, texts, "less") == translated(service, target, texts, "more")


def test_terms_and_placeholders_stay(shipped: tuple[Service, str]) -> None:
    service, target = shipped
    translator = service.state.deployments.current.translator
    formality: Formality
    for formality in ("less", "more"):
        options = Options("en", target, glossary={"keys": "Xyz"}, formality=formality)
        [item] = service.run(translator.translate(["Where did you put your keys, {name}?"], options)).items
        assert "{name}" in item.text and "xyz" in item.text.lower()


def test_codes_may_have_regions() -> None:
    assert [has_formality(code) for code in ("de", "FR-ca", "es-419", "en-GB", "zh")] == [True] * 3 + [False] * 2
