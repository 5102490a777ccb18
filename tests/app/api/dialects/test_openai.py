"""app/api/dialects/openai.py: OpenAI's own client with the service, and its own checks of every response."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionUserMessageParam
from shared_fixtures import listening

from app.api.dialects.openai import chunks
from app.http.api_keys import new_key

TEXTS = ["My friend has a house.", "The cat sleeps."]
KEY, KEY_LINE = new_key("tool")


def prompt(*texts: str) -> list[ChatCompletionUserMessageParam]:
    return [{"role": "user", "content": "Translate into French:\n" + "\n%%\n".join(texts)}]


@pytest.fixture(scope="module")
def url(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"{KEY_LINE}\n", encoding="utf-8")
    with listening(bundle_folder, api_keys_file=keys) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=KEY, base_url=f"{url}/openai/v1", max_retries=0, timeout=600) as client:
        yield client


@pytest.fixture(scope="module")
def translated(url: str) -> list[str]:
    """What our own API answers."""
    body = {"text": TEXTS, "source": "en", "target": "fr"}
    answer = httpx.post(f"{url}/translate", json=body, headers={"Authorization": f"Bearer {KEY}"})
    return [each["text"] for each in answer.json()["translations"]]


def test_a_completion_is_the_translation_and_is_valid(client: openai.OpenAI, translated: list[str]) -> None:
    raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=prompt(TEXTS[0]))
    read = ChatCompletion.model_validate_json(raw.text, strict=True)
    (choice,) = read.choices
    assert (choice.message.content, choice.message.role, choice.finish_reason) == (translated[0], "assistant", "stop")
    assert read.model == "gpt-4o"
    assert read.usage
    assert read.usage.prompt_tokens + read.usage.completion_tokens == read.usage.total_tokens > 0


def test_a_stream_gives_the_same_and_is_valid(client: openai.OpenAI, translated: list[str]) -> None:
    stream = client.chat.completions.create(model="any", messages=prompt(*TEXTS), stream=True)
    read = [ChatCompletionChunk.model_validate(each.model_dump(exclude_unset=True), strict=True) for each in stream]
    assert len({chunk.id for chunk in read}) == 1
    assert read[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in read) == "\n%%\n".join(translated)
    assert [chunk.choices[0].finish_reason for chunk in read] == [None] * (len(read) - 1) + ["stop"]
    assert {chunk.usage for chunk in read} == {None}


def test_a_stream_ends_with_the_usage_if_that_is_asked_for(client: openai.OpenAI) -> None:
    options: dict[str, bool] = {"include_usage": True}
    with client.chat.completions.stream(model="any", messages=prompt(TEXTS[0]), stream_options=options) as stream:  # type: ignore[arg-type]
        usage = stream.get_final_completion().usage
    assert usage
    assert usage.total_tokens > 0


def test_a_line_is_never_in_two_events() -> None:
    """XUnity.AutoLLMTranslator reads whole lines."""
    events = list(chunks('[1]="Un."\n[2]="Deux."\n', "any"))
    assert [sum(f"[{number}]" in event for event in events) for number in (1, 2)] == [1, 1]
    assert all(event.startswith("data: ") and event.endswith("\n\n") and event.count("\n") == 2 for event in events)
    assert events[-1] == "data: [DONE]\n\n"


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["interlinear"]


def test_a_prompt_that_asks_for_no_translation_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="This service only translates") as refused:
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": "Hello!"}])
    assert refused.value.type == "invalid_request_error"


def test_a_language_that_is_not_served_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"\bde\b"):
        client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "Translate into German:\nHi."}]
        )


def test_a_wrong_key_is_one_for_the_client(url: str) -> None:
    with (
        openai.OpenAI(api_key="wrong", base_url=f"{url}/openai/v1", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.chat.completions.create(model="any", messages=prompt(TEXTS[0]))
