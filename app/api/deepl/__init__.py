"""DeepL's API, compatible with its clients: `/v2/translate` and the rest. Exports the dialect."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, HTTPException, Response

from app.api.deepl import documents, glossaries, languages, memory_jobs, quality_evaluation, translation_memories
from app.api.deepl.text import TRANSLATE
from app.api.deepl.wire_format import Caller, DeepLError, render_problem
from app.api.dialects.dialect import Dialect

_MODULES = languages, documents, glossaries, memory_jobs, translation_memories, quality_evaluation
router = APIRouter()


async def _refuse(what: str, caller: Caller) -> Response:
    raise HTTPException(404, f"This service has no {what}.")


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
        partial(_refuse, what),
        methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        include_in_schema=False,
    )

DEEPL = Dialect(
    "deepl",
    "DeepL",
    "DeepL's API, for its clients: version 2, and version 3 for glossaries",
    render_problem,
    (TRANSLATE,),
    [router, *(module.router for module in _MODULES)],
    DeepLError,
    ("X-Trace-ID",),
)
