"""LibreTranslate's error messages, and the OpenAPI descriptions of its routes other than their responses."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel

from app import errors
from app.api.libretranslate.schemas import FileToTranslate, LibreError, Suggestion, ToDetect, ToTranslate
from app.api.openapi_parts import (
    ADMISSION_ERRORS,
    BODY_ERRORS,
    FORM_ERRORS,
    TRANSLATION_ERRORS,
    error_responses,
    file_response,
    form_with_file,
)
from app.errors import PairNotServed, StoreUnavailable, Unavailable
from app.http.forms import FORM, JSON, MULTIPART
from app.http.problems import ASCIIResponse, Problem

_STATUS = {401: 403, 408: 400, 413: 400, 415: 400, 422: 400}
"""LibreTranslate's status codes for ours. It has no 503 and 504, but proxies between it and its clients do."""
_HELLO = {"q": "Hello.", "source": "en", "target": "fr"}
_EXAMPLES: dict[str, dict[str, Any]] = {
    "text": {"summary": "A text", "value": _HELLO},
    "list": {
        "summary": "A list whose languages are detected",
        "value": {"q": ["Hello, my friend.", "How are you?"], "source": "auto", "target": "fr"},
    },
    "html": {
        "summary": "HTML, with alternative translations",
        "value": {"q": "<p>My <b>house</b>.</p>", "source": "en", "target": "fr", "format": "html", "alternatives": 2},
    },
}
_ERROR = {"$ref": "#/components/schemas/LibreError"}


def missing_message(name: str) -> str:
    """LibreTranslate's message for a missing field."""
    return f"Invalid request: missing {name} parameter"


def render_problem(problem: Problem, headers: dict[str, str]) -> Response:
    """Converts `problem` to LibreTranslate's format."""
    status = _STATUS.get(problem.status, problem.status)
    if problem.type.endswith(f":{PairNotServed.slug}"):
        status = 400
    faults = [f"{fault.pointer[2:]}: {fault.detail}".removeprefix(": ") for fault in problem.errors[:3]]
    error = f"Invalid request: {'; '.join(faults)}" if faults else problem.detail
    return ASCIIResponse({"error": error}, status, headers)


def _responses(*kinds: type[errors.ServiceError]) -> dict[int | str, dict[str, Any]]:
    responses = error_responses(*kinds, renderer=render_problem, schema=_ERROR)
    # Our errors point to fields as JSON does. Here usually one field is missing, and LibreTranslate has a message for
    # that.
    responses[400]["content"][JSON]["examples"]["invalid-fields"]["value"] = {"error": missing_message("target")}
    return responses


def _form(kind: type[BaseModel]) -> dict[str, Any]:
    """The schema of `kind` for forms and queries, where values are strings and never lists or null."""
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
    """The fields as query parameters; none is required, since they may be in the body."""
    return [
        {"name": name, "in": "query", "description": "As in the body, which takes precedence", "schema": field}
        for name, field in _form(kind)["properties"].items()
    ]


def _any_request(kind: type[BaseModel], examples: dict[str, dict[str, Any]], example: dict[str, Any]) -> dict[str, Any]:
    """The request of a route that takes its fields as JSON, as a form or in the query."""
    form = {"schema": _form(kind), "example": example}
    content = {JSON: {"schema": kind.model_json_schema(), "examples": examples}, FORM: form, MULTIPART: form}
    return {"requestBody": {"required": False, "content": content}, "parameters": _query(kind)}


def _file_request(kind: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """The request of a route that takes a file."""
    content = {MULTIPART: {"schema": form_with_file(_form(kind)), "example": example}}
    return {"requestBody": {"required": True, "content": content}, "parameters": _query(kind)}


TRANSLATE: dict[str, Any] = {
    "openapi_extra": _any_request(ToTranslate, _EXAMPLES, _HELLO),
    "responses": _responses(*ADMISSION_ERRORS, *BODY_ERRORS, *TRANSLATION_ERRORS),
}
DETECT: dict[str, Any] = {
    "openapi_extra": _any_request(
        ToDetect, {"text": {"summary": "A text", "value": {"q": "How are you?"}}}, {"q": "How are you?"}
    ),
    "responses": _responses(*ADMISSION_ERRORS, *BODY_ERRORS),
}
TRANSLATE_FILE: dict[str, Any] = {
    "openapi_extra": _file_request(FileToTranslate, {"file": "Hello.", "source": "en", "target": "fr"}),
    "responses": _responses(*ADMISSION_ERRORS, *FORM_ERRORS, *TRANSLATION_ERRORS, StoreUnavailable),
}
NO_SUCH_FILE = "There is no such file, or it has expired."
DOWNLOAD: dict[str, Any] = {
    "responses": {
        200: file_response(
            "The file", **{"Content-Disposition": {"description": "The file's name", "schema": {"type": "string"}}}
        ),
        404: {
            "description": "No such file, or it has expired",
            "model": LibreError,
            "content": {JSON: {"example": {"error": NO_SUCH_FILE}}},
        },
        **{
            status: {**response, "model": LibreError}
            for status, response in error_responses(StoreUnavailable, renderer=render_problem, schema=_ERROR).items()
        },
    }
}
NO_SUGGESTIONS = "Suggestions are disabled on this server."
SUGGEST: dict[str, Any] = {
    "openapi_extra": _any_request(
        Suggestion,
        {"pair": {"summary": "A pair", "value": {"q": "Hello.", "s": "Salut.", "source": "en", "target": "fr"}}},
        {"q": "Hello.", "s": "Salut.", "source": "en", "target": "fr"},
    ),
    "responses": _responses(*ADMISSION_ERRORS, *BODY_ERRORS, PairNotServed, Unavailable),
}
SUGGEST["responses"][403]["description"] += "; or suggestions are disabled"
SUGGEST["responses"][403]["content"][JSON]["examples"]["disabled"] = {
    "summary": "Suggestions are disabled",
    "value": {"error": NO_SUGGESTIONS},
}
