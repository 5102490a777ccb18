"""/translate with `prefix` continues it, whatever tokens the prefix ends within."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_fixtures import SHIPPED, Service, serving

from app.translation.completion import token_prefix
from model.spelling import SpellingIndex
from model.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

TEXTS = [
    "Hello.",
    "How are you?",
    "The cat sleeps on the red chair.",
    "My red car",
    "DO NOT OPEN THE DOOR",
    "I live in a small house.",
    "Cancel",
    "She said that it was too late to call.",
    "We went to the market to buy some bread.",
]


@pytest.fixture(scope="module", params=["int8", "float32"])
def shipped(request: pytest.FixtureRequest) -> Iterator[Service]:
    with serving(SHIPPED / "en-fr", precision=request.param) as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


@pytest.fixture(scope="module")
def uncached(shipped: Service) -> Iterator[Service]:
    """Decodes each text that it is asked for, alone."""
    with serving(SHIPPED / "en-fr", precision=_precision(shipped), cache_bytes=0) as service:
        yield service


def _precision(service: Service) -> str:
    return str(service.get("/models").json()[0]["precision"])


@pytest.fixture(scope="module", params=["en-fr", "en-zh"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.load(SHIPPED / str(request.param) / "sentencepiece.model")


def ask(service: Service, text: str, prefix: str, status: int = 200, **fields: Any) -> dict[str, Any]:
    response = service.post("/translate", {"text": text, "source": "en", "target": "fr", "prefix": prefix, **fields})
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer["translations"][0] if status == 200 else answer


@pytest.mark.parametrize("text", TEXTS)
def test_the_models_own_translation_comes_back_from_any_prefix_of_it(shipped: Service, text: str) -> None:
    whole = ask(shipped, text, "")["text"]
    body = {"text": text, "source": "en", "target": "fr"}
    step = 1 if _precision(shipped) == "int8" else 12  # in float32, which is slow, a few of the prefixes
    ends = range(1, len(whole) + 1, step)
    answers = shipped.post_together("/translate", [{**body, "prefix": whole[:end]} for end in ends])
    assert [answer.json()["translations"][0]["text"] for answer in answers] == [whole] * len(ends)


@settings(max_examples=8, deadline=None)
@given(text=st.sampled_from(TEXTS), prefix=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_the_translation_begins_with_any_prefix_exactly(shipped: Service, text: str, prefix: str) -> None:
    assert ask(shipped, text, prefix)["text"].startswith(prefix)


@pytest.mark.parametrize(
    ("text", "prefix"), [("Hello.", "Bonj"), ("How are you?", "Où ê"), ("My red car", "Ma v"), ("Hello.", "Salut, ")]
)
def test_the_same_prefix_has_the_same_translation_alone_and_among_others(
    shipped: Service, uncached: Service, text: str, prefix: str
) -> None:
    body = {"text": text, "source": "en", "target": "fr", "prefix": prefix}
    others = [{**body, "text": other, "prefix": "L"} for other in TEXTS] + [{**body, "text": TEXTS, "prefix": ""}]
    together = shipped.post_together("/translate", [*others, body])[-1].json()
    assert uncached.post("/translate", body).json() == together


def test_alternatives_begin_with_the_prefix_too(shipped: Service) -> None:
    prefix = "Je vis dans une pet"
    answer = ask(shipped, "I live in a small house.", prefix, alternatives=3)
    texts = [answer["text"], *(other["text"] for other in answer["alternatives"])]
    assert len(texts) == len(set(texts)) == 4
    assert all(text.startswith(prefix) for text in texts)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Hello. How are you?", {}),
        ("Hello, {name}.", {}),
        ("Hello, <b>you</b>.", {}),
        ("12", {}),
        ("Hello.", {"format": "html"}),
        ("Hello.", {"line_breaks": "join"}),
        ("Hello.", {"glossary": {"hello": "salut"}}),
        (["Hello.", "How are you?"], {}),
    ],
)
def test_what_cannot_be_continued_is_refused_by_name(service: Service, text: Any, fields: dict[str, Any]) -> None:
    assert ask(service, text, "Bon", status=422, **fields)["errors"][0]["pointer"] == "#/prefix"


def test_a_prefix_over_the_models_limit_is_too_much_text(service: Service) -> None:
    assert ask(service, "Hello.", "Bonjour " * 40, status=413)


def test_a_prefix_ends_within_a_token(tokenizer: Tokenizer) -> None:
    """The tokens of a text are among those that spell its beginning, wherever that ends after the last space."""
    for text in ("Bonjour à tous.", "今天天气很好。", "😀 e"):
        ids = tokenizer.encode(text)
        for end in range(1, len(text) + 1):
            found = token_prefix(tokenizer, text[:end])
            assert found is not None
            assert tuple(ids[: len(found.tokens)]) == found.tokens
            state = 0
            for id in ids[len(found.tokens) :]:
                if state == len(found.spelling):
                    break
                state = dict(found.spelling[state])[id]
            assert state == len(found.spelling)


def test_spellings_leave_out_what_leads_nowhere() -> None:
    index = SpellingIndex([b"", b"a", b"ab", b"abc", b"b", b"cd", b"x"])
    assert index.spelling(b"abc") == (((1, 1), (2, 2), (3, 3)), ((4, 2),), ((5, 3),))
    assert index.spelling(b"ab") == (((1, 1), (2, 2), (3, 2)), ((4, 2),))
    assert index.spelling(b"ay") is None
    assert index.spelling(b"") == ()
