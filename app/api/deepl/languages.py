"""DeepL's /v2/languages, /v3/languages and /v2/usage."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
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
from app.api.state import app_of, translator_of
from app.errors import InvalidFields, StoreUnavailable
from app.http.forms import read_fields
from app.translation.formality import has_formality
from model.languages import language_alone, language_name

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
    supports_formality: bool | None = Field(default=None, description="Target languages only")


class CharacterUsage(BaseModel):
    """How much a client has translated, and its limit."""

    character_count: int = Field(
        description="Characters used that the rate limit has not yet restored", examples=[1234]
    )
    character_limit: int = Field(
        description="Characters available at once; 1,000,000,000,000 if there is no limit", examples=[NO_LIMIT]
    )


ResourceName = Literal[
    "translate_text", "translate_document", "glossary", "translation_memory", "voice", "write", "style_rules"
]
_FEATURES: dict[str, dict[str, str | bool]] = {
    name: {
        "name": name,
        "needs_source_support": name != "formality",
        "needs_target_support": name != "auto_detection",
    }
    for name in ("auto_detection", "formality", "glossary", "tag_handling", "translation_memory")
}
_RESOURCES: dict[str, tuple[str, ...]] = {
    "translate_text": ("auto_detection", "formality", "glossary", "tag_handling", "translation_memory"),
    "translate_document": ("auto_detection", "formality", "glossary", "translation_memory"),
    "glossary": (),
    "translation_memory": (),
}
"""The features of each resource; the others of `ResourceName` are not there."""


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
    catalogue = translator_of(request).catalogue
    if validated(LanguagesRequest, await read_fields(request)).type == "source":
        return JSONResponse(
            [{"language": code.upper(), "name": name} for code, name in source_languages(catalogue).items()]
        )
    return JSONResponse(
        [
            {"language": code.upper(), "name": name, "supports_formality": has_formality(code)}
            for code, name in target_languages(catalogue).items()
        ]
    )


@router.get(
    "/v3/languages/resources",
    summary="List what languages are listed for, with the features",
    responses=error_responses(),
)
async def resources(caller: Caller) -> list[dict[str, Any]]:
    """List the resources that there are, with the `features` of each, and which of two languages must have them."""
    return [{"name": name, "features": [_FEATURES[each] for each in of]} for name, of in _RESOURCES.items()]


@router.get("/v3/languages", summary="List languages with their features", responses=error_responses(InvalidFields))
async def languages_of(
    request: Request,
    caller: Caller,
    resource: Annotated[ResourceName, Query(description="What to list the languages for", examples=["translate_text"])],
) -> list[dict[str, Any]]:
    """List the languages that a resource takes, as in BCP 47, with their `features` by name; none for a resource that
    this service has not."""
    catalogue = translator_of(request).catalogue
    features = _RESOURCES.get(resource)
    keeps_memory = app_of(request).translation_memory is not None
    if features is None or (resource == "translation_memory" and not keeps_memory):
        return []
    if not keeps_memory:
        features = tuple(each for each in features if each != "translation_memory")
    sources, targets = source_languages(catalogue), target_languages(catalogue)
    if not features:  # glossaries and memories are of languages, not of their variants
        targets = {code: language_name(code) for code in map(language_alone, targets)}
    has = {"status": "stable"}
    return [
        {
            "lang": code,
            "name": name,
            "usable_as_source": code in sources,
            "usable_as_target": code in targets,
            "status": "stable",
            "features": {
                each: has
                for each in features
                if (code in sources or each != "auto_detection") and (each != "formality" or has_formality(code))
            },
        }
        for code, name in sorted({**targets, **sources}.items())
    ]


@router.post("/v2/usage", **_USAGE)
@router.get("/v2/usage", **_USAGE)
async def usage(caller: Caller) -> CharacterUsage:
    """Return the client's usage. Without a limit, it covers all clients without a key together, or this key."""
    return CharacterUsage(character_count=await caller.characters(), character_limit=caller.character_limit or NO_LIMIT)
