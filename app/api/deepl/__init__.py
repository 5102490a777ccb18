"""DeepL's API, as its clients know it: `/v2/translate` and the rest, put together. Exports `router` and `voice`."""

from __future__ import annotations

from fastapi import APIRouter

from app.routes import deepl_documents, deepl_glossaries, deepl_text
from app.routes.deepl_wire import voice

__all__ = ["router", "voice"]

router = APIRouter(tags=["DeepL"])
for module in (deepl_text, deepl_documents, deepl_glossaries):
    router.include_router(module.router)
