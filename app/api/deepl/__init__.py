"""DeepL's API, compatible with its clients: `/v2/translate` and the rest. Exports `router` and `render_problem`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, HTTPException, Response

from app.api.deepl import documents, glossaries, languages, memory_jobs, text, translation_memories
from app.api.deepl.wire_format import Caller, render_problem

__all__ = ["render_problem", "router"]

router = APIRouter(tags=["DeepL"])
for module in (text, languages, documents, glossaries, memory_jobs, translation_memories):
    router.include_router(module.router)


def _refusal(what: str) -> Callable[[Caller], Coroutine[Any, Any, Response]]:
    async def refuse(caller: Caller) -> Response:
        raise HTTPException(404, f"This service has no {what}.")

    return refuse


for path, what in {
    "/v2/admin": "Admin API",
    "/v2/write": "DeepL Write",
    "/v3/spoken-terms": "spoken terms",
    "/v3/style_rules": "style rules",
    "/v3/style_profiles": "style profiles",
    "/v3/voice": "DeepL Voice",
}.items():
    router.add_api_route(
        f"{path}{{rest:path}}",
        _refusal(what),
        methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        include_in_schema=False,
    )
