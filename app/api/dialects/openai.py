"""OpenAI's chat completions, for tools that only know large models: they get the translation that a prompt asks for."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from fastapi.responses import StreamingResponse
from pydantic import Field

from app.api.dialects.chat_prompts import NotATranslation, asked
from app.api.dialects.dialect import Asked, Call, Dialect, Question, Row, TextQuestion, json_errors, translated
from app.errors import InvalidFields
from app.http.problems import Problem

EVENTS = "text/event-stream"
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def completion(content: str, model: str, usage: tuple[int, int]) -> dict[str, Any]:
    """A response with `content`. `usage` is what the prompt and the answer count, in characters."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    return {**_head("chat.completion", model), "choices": [choice], "usage": _usage(usage)}


def chunks(content: str, model: str, usage: tuple[int, int] | None = None) -> Iterator[str]:
    """The events of a streamed response, a line of `content` each. `usage` if `stream_options` asks for it."""
    head = _head("chat.completion.chunk", model)
    deltas = [
        {"role": "assistant", "content": ""},
        *({"content": line} for line in content.splitlines(keepends=True)),
        {},
    ]
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None if delta else "stop"}
        yield _event({**head, "choices": [choice]})
    if usage is not None:
        yield _event({**head, "choices": [], "usage": _usage(usage)})
    yield "data: [DONE]\n\n"


class ChatCompletions(TextQuestion):
    """Answer a prompt that asks for a translation with the translation alone, in the form that the prompt wants.

    Any other prompt is refused with what was understood of it. It reads the default prompts of twenty tools, and any
    other that names the target language before the text, or in the system message.
    """

    text_fields = ()
    is_json_only = True

    messages: list[dict[str, Any]] = Field(min_length=1, description="The prompt: messages of `role` and `content`")
    model: str = Field("", description="Ignored: the languages choose the model")
    stream: bool = Field(False, description="Send the answer as server-sent events")
    stream_options: dict[str, Any] = Field({}, description="`include_usage`: the last event has the usage")

    async def respond(self, call: Call) -> object:
        try:
            found = asked(self.messages)
        except NotATranslation as error:
            raise InvalidFields.at("#/messages", str(error)) from None
        done = await translated(call, Asked(found.texts, found.source or "", found.target))
        content, model = found.answer(done.texts), self.model or "interlinear"
        usage = sum(map(len, found.texts)), len(content)
        if not self.stream:
            return completion(content, model, usage)
        events = chunks(content, model, usage if self.stream_options.get("include_usage") else None)
        return StreamingResponse(events, media_type=EVENTS, headers={"Cache-Control": "no-store"})


class ListModels(Question):
    """List the one model, which has any name: the languages of a request choose the bundle."""

    async def respond(self, call: Call) -> object:
        model = {"id": "interlinear", "object": "model", "created": 0, "owned_by": "interlinear"}
        return {"object": "list", "data": [model]}


def _error(message: str, status: int, problem: Problem) -> dict[str, Any]:
    kind = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = problem.type.rpartition(":")[2].replace("-", "_")
    return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


_PROMPT = {"messages": [{"role": "user", "content": "Translate into French:\nHello."}]}
OPENAI = Dialect(
    "openai",
    "OpenAI",
    "OpenAI's chat completions, for tools that only know large models",
    json_errors(_error),
    (
        Row(
            "/v1/chat/completions",
            ChatCompletions,
            "Answer a prompt with a translation",
            (_PROMPT,),
            media_types=(EVENTS,),
        ),
        Row("/v1/models", ListModels, "List the model", methods=("GET",)),
    ),
)
