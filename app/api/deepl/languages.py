"""DeepL's /v2/languages and /v2/usage."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.api.deepl.wire_format import (
    Body,
    Caller,
    error_responses,
    request_body,
    source_languages,
    target_languages,
    validated,
)
from app.api.openapi_parts import BODY_ERRORS
from app.errors import StoreUnavailable
from app.http.forms import read_fields

router = APIRouter()
NO_LIMIT = 1_000_000_000_000
"""Characters. Reported to clients without a limit, since the format has no other way to say so."""


class LanguagesRequest(Body):
    """Which languages to list."""

    type: Literal["source", "target"] = Field("source", description="Which of the two")


class OfferedLanguage(BaseModel):
    """A language, and for targets whether it supports formality."""

    language: str = Field(description="Its code", examples=["FR"])
    name: str = Field(description="In English", examples=["French"])
    supports_formality: bool | None = Field(default=None, description="Target languages only: always false")


class CharacterUsage(BaseModel):
    """How much a client has translated, and its limit."""

    character_count: int = Field(
        description="Characters used that the rate limit has not yet restored", examples=[1234]
    )
    character_limit: int = Field(
        description="Characters available at once; 1,000,000,000,000 if there is no limit", examples=[NO_LIMIT]
    )


_LANGUAGES: dict[str, Any] = {
    "summary": "List source or target languages",
    "response_model": list[OfferedLanguage],
    "responses": error_responses(*BODY_ERRORS),
}
_USAGE: dict[str, Any] = {
    "summary": "Get the characters used, and the limit",
    "responses": error_responses(StoreUnavailable),
}


@router.post("/v2/languages", openapi_extra=request_body(LanguagesRequest, {"type": "target"}), **_LANGUAGES)
@router.get(
    "/v2/languages",
    openapi_extra={
        "parameters": [
            {
                "name": "type",
                "in": "query",
                "description": "Which of the two",
                "schema": {"type": "string", "enum": ["source", "target"], "default": "source"},
            }
        ]
    },
    **_LANGUAGES,
)
async def languages(request: Request, caller: Caller) -> Response:
    """List the languages served. Targets with variants are listed under them, such as EN-GB and EN-US."""
    catalogue = request.state.translator.catalogue
    if validated(LanguagesRequest, await read_fields(request)).type == "source":
        return JSONResponse([{"language": code, "name": name} for code, name in source_languages(catalogue)])
    return JSONResponse(
        [{"language": code, "name": name, "supports_formality": False} for code, name in target_languages(catalogue)]
    )


@router.post("/v2/usage", **_USAGE)
@router.get("/v2/usage", **_USAGE)
async def usage(caller: Caller) -> CharacterUsage:
    """Return the client's usage. Without a limit, it covers all clients without a key together, or this key."""
    return CharacterUsage(character_count=await caller.characters(), character_limit=caller.character_limit or NO_LIMIT)
