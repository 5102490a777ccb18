"""How LibreTranslate's API words errors, and what the OpenAPI page shows of its routes beside their answers."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel

from app import errors
from app.api.libretranslate.schemas import FileToTranslate, LibreError, ToDetect, ToTranslate
from app.api.openapi_parts import ENTERING, READING, READING_FORM, TRANSLATING, documented, fetched, with_file
from app.errors import PairNotServed
from app.http.forms import FORM, JSON, PARTS
from app.http.problems import ASCIIResponse, Problem

_STATUS = {401: 403, 408: 400, 413: 400, 415: 400, 422: 400}
"""LibreTranslate's for ours. 503 and 504 it does not know, but whatever stands between it and its clients does."""
_HELLO = {"q": "Hello.", "source": "en", "target": "fr"}
_EXAMPLES: dict[str, dict[str, Any]] = {
    "text": {"summary": "A text", "value": _HELLO},
    "list": {
        "summary": "A list, whose languages are to be detected",
        "value": {"q": ["Hello, my friend.", "How are you?"], "source": "auto", "target": "fr"},
    },
    "html": {
        "summary": "HTML, with other translations",
        "value": {"q": "<p>My <b>house</b>.</p>", "source": "en", "target": "fr", "format": "html", "alternatives": 2},
    },
}
_ERROR = {"$ref": "#/components/schemas/LibreError"}


def missing(name: str) -> str:
    """What LibreTranslate says of a field that is not there."""
    return f"Invalid request: missing {name} parameter"


def voice(problem: Problem, headers: dict[str, str]) -> Response:
    """`problem` as LibreTranslate would word it."""
    status = _STATUS.get(problem.status, problem.status)
    if problem.type.endswith(f":{PairNotServed.slug}"):
        status = 400
    said = [f"{fault.pointer[2:]}: {fault.detail}".removeprefix(": ") for fault in problem.errors[:3]]
    error = f"Invalid request: {'; '.join(said)}" if said else problem.detail
    return ASCIIResponse({"error": error}, status, headers)


def _responses(*kinds: type[errors.ServiceError]) -> dict[int | str, dict[str, Any]]:
    responses = documented(*kinds, voice=voice, schema=_ERROR)
    # Ours name fields as JSON does; here there is most often one missing, and LibreTranslate has words for that.
    responses[400]["content"][JSON]["examples"]["invalid-fields"]["value"] = {"error": missing("target")}
    return responses


def _form(kind: type[BaseModel]) -> dict[str, Any]:
    """The schema of `kind` for forms and queries, whose values are strings, and neither lists nor null."""
    schema = kind.model_json_schema()
    for field in schema["properties"].values():
        for choice in ("anyOf", "oneOf"):
            types = [option.get("type") for option in field.get(choice, [])]
            if "array" in types or "null" in types:
                del field[choice]
                field["type"] = "string"
                field.pop("default", None)
    return schema


def _query(kind: type[BaseModel]) -> list[dict[str, Any]]:
    """The fields as parameters; none must be there, since they may be in the body."""
    return [
        {"name": name, "in": "query", "description": "As in the body, which is looked at first", "schema": field}
        for name, field in _form(kind)["properties"].items()
    ]


def _any_way(kind: type[BaseModel], examples: dict[str, dict[str, Any]], example: dict[str, Any]) -> dict[str, Any]:
    """The request of a route whose fields may come any way."""
    form = {"schema": _form(kind), "example": example}
    content = {JSON: {"schema": kind.model_json_schema(), "examples": examples}, FORM: form, PARTS: form}
    return {"requestBody": {"required": False, "content": content}, "parameters": _query(kind)}


def _file(kind: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The request of a route that takes a file."""
    content = {PARTS: {"schema": with_file(_form(kind)), "example": example}}
    return {"requestBody": {"required": True, "content": content}, "parameters": _query(kind)}


TRANSLATE: dict[str, Any] = {
    "openapi_extra": _any_way(ToTranslate, _EXAMPLES, _HELLO),
    "responses": _responses(*ENTERING, *READING, *TRANSLATING),
}
DETECT: dict[str, Any] = {
    "openapi_extra": _any_way(
        ToDetect, {"text": {"summary": "A text", "value": {"q": "How are you?"}}}, {"q": "How are you?"}
    ),
    "responses": _responses(*ENTERING, *READING),
}
TRANSLATE_FILE: dict[str, Any] = {
    "openapi_extra": _file(FileToTranslate, {"file": "Hello.", "source": "en", "target": "fr"}),
    "responses": _responses(*ENTERING, *READING_FORM, *TRANSLATING),
}
GONE = "There is no such file, or not any more."
DOWNLOAD: dict[str, Any] = {
    "responses": {
        200: fetched(
            "The file", **{"Content-Disposition": {"description": "The file's name", "schema": {"type": "string"}}}
        ),
        404: {
            "description": "No such file, or not any more",
            "model": LibreError,
            "content": {JSON: {"example": {"error": GONE}}},
        },
    }
}
NO_SUGGESTIONS = "Suggestions are disabled on this server."
SUGGEST: dict[str, Any] = {
    "responses": {
        403: {
            "description": "Suggestions are not kept",
            "model": LibreError,
            "content": {JSON: {"example": {"error": NO_SUGGESTIONS}}},
        }
    }
}
