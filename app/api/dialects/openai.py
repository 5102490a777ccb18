"""OpenAI's chat completions: a translation as a completion, whole or as a stream, and the list of models."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

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


def models(names: Iterable[str]) -> dict[str, Any]:
    """The list of models."""
    return {
        "object": "list",
        "data": [{"id": n, "object": "model", "created": 0, "owned_by": "interlinear"} for n in names],
    }


def error(status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    kind = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


def _event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"
