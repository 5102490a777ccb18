"""Shared parts of the OpenAPI document: errors that routes may end in, and uploaded and downloaded files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import Response
from pydantic import BaseModel

from app import errors
from app.errors import ServiceError
from app.formats import MEDIA_TYPES
from app.http.problems import ErrorRenderer, Problem, ProblemResponse, error_response

ADMISSION_ERRORS = (errors.NotAuthorised, errors.TooManyRequests)
"""Errors before the body is read."""
FORM_ERRORS = (errors.BodyTooSlow, errors.TooMuchText, errors.WrongContentType, errors.InvalidFields)
BODY_ERRORS = (errors.NotJSON, *FORM_ERRORS)
"""Errors in reading a body; a form has all of them except that it is not JSON."""
TRANSLATION_ERRORS = (
    errors.PairNotServed,
    errors.TooManyCharacters,
    errors.StepFailed,
    errors.Unavailable,
    errors.Overloaded,
    errors.DeadlinePassed,
)
FORMAT_OF_NAME = f"Its name decides the format: {', '.join(MEDIA_TYPES)}"
_RETRIED = {kind.slug for kind in (errors.Overloaded, errors.TooManyRequests, errors.StoreUnavailable)}
"""Errors with a Retry-After header."""
_BYTES = {"type": "string", "format": "binary"}
_PROBLEM = {"$ref": "#/components/schemas/Problem"}


class _RenderedError(NamedTuple):
    """An error in an API's own format."""

    slug: str
    title: str
    response: Response


def error_responses(
    *kinds: type[ServiceError],
    renderer: ErrorRenderer = ProblemResponse,
    schema: Mapping[str, Any] = _PROBLEM,
    others: Mapping[str, Problem] | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may end in these errors, each with an example.

    `renderer` formats them, as `schema`. `others`: problems that are not ServiceErrors, by name.
    """
    rendered = [_RenderedError(kind.slug, kind.title, error_response(kind(kind.example), renderer)) for kind in kinds]
    rendered += [_RenderedError(slug, problem.title, renderer(problem, {})) for slug, problem in (others or {}).items()]
    statuses = sorted({error.response.status_code for error in rendered})
    return {
        status: _status_response([error for error in rendered if error.response.status_code == status], schema)
        for status in statuses
    }


def _status_response(rendered: list[_RenderedError], schema: Mapping[str, Any]) -> dict[str, Any]:
    examples = {error.slug: {"summary": error.title, "value": example_of(error.response)} for error in rendered}
    return {
        "description": "; ".join(dict.fromkeys(error.title for error in rendered)),
        "content": {rendered[0].response.media_type: {"schema": schema, "examples": examples}},
        **({"headers": headers} if (headers := _response_headers(rendered)) else {}),
    }


def example_of(response: Response) -> Any:
    body = bytes(response.body)
    return json.loads(body) if "json" in str(response.media_type) else body.decode()


def _response_headers(rendered: list[_RenderedError]) -> dict[str, Any]:
    if any("www-authenticate" in error.response.headers for error in rendered):
        return {"WWW-Authenticate": {"description": "How to send a key", "schema": {"type": "string"}}}
    if any(error.slug in _RETRIED for error in rendered):
        return {"Retry-After": {"description": "Seconds to wait before retrying", "schema": {"type": "integer"}}}
    return {}


def form_with_file(
    schema: dict[str, Any], description: str = FORMAT_OF_NAME, other_files: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The schema of a form: a file with this `description`, the fields of `schema`, and `other_files`, which may be
    left out, by name with their descriptions."""
    others = {name: {**_BYTES, "description": text} for name, text in (other_files or {}).items()}
    properties = {"file": {**_BYTES, "description": description}, **schema["properties"], **others}
    return {**schema, "properties": properties, "required": ["file", *schema["required"]]}


def file_response(description: str, **headers: dict[str, Any]) -> dict[str, Any]:
    """The description of a response that is a file, with these `headers`."""
    return {
        "description": f"{description}, of the media type of its format",
        "content": {media_type: {"schema": _BYTES} for media_type in MEDIA_TYPES.values()},
        **({"headers": headers} if headers else {}),
    }


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The self-contained JSON schema of `model`."""
    schema = model.model_json_schema(mode="validation")
    defined = schema.pop("$defs", {})

    def inline(part: Any) -> Any:
        if isinstance(part, list):
            return [inline(element) for element in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inline(defined[part["$ref"].rpartition("/")[2]])
        return {name: inline(element) for name, element in part.items()}

    found: dict[str, Any] = inline(schema)
    return found
