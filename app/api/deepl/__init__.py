"""DeepL's API, compatible with its clients: `/v2/translate` and the rest. Exports `router` and `render_problem`."""

from __future__ import annotations

from fastapi import APIRouter

from app.api.deepl import documents, glossaries, languages, text, translation_memories
from app.api.deepl.wire_format import render_problem

__all__ = ["render_problem", "router"]

router = APIRouter(tags=["DeepL"])
for module in (text, languages, documents, glossaries, translation_memories):
    router.include_router(module.router)
