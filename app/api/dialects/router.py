"""The router of a dialect: the handler of its rows, and their OpenAPI descriptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from app.api.admission import admit, admit_early, check_load, key_of
from app.api.dialects.dialect import Call, Dialect, Row, TextQuestion
from app.api.openapi_parts import (
    ADMISSION_ERRORS,
    BODY_ERRORS,
    TRANSLATION_ERRORS,
    error_responses,
    example_of,
    schema_of,
)
from app.errors import InvalidFields, ServiceError
from app.http.forms import FORM, JSON, MULTIPART, Fields, read_fields
from app.http.problems import error_response


@cache
def router_of(dialect: Dialect) -> APIRouter:
    """Made once, whatever the number of applications: its descriptions take a fifth of a second in all."""
    router = APIRouter(tags=[dialect.title])
    for row in dialect.rows:
        for method in row.methods:
            docs = _docs(dialect, row, method)
            router.add_api_route(row.path, _endpoint(row), methods=[method], summary=row.summary, **docs)
    for other in dialect.others:
        router.include_router(other)
    return router


def _endpoint(row: Row) -> Callable[..., Any]:
    async def endpoint(request: Request) -> Response:
        answer = await _respond(row, request)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    endpoint.__name__ = row.question.__name__
    endpoint.__doc__ = row.question.__doc__
    return endpoint


async def _respond(row: Row, request: Request) -> object:
    if issubclass(row.question, TextQuestion):
        check_load(request)
    if row.question.splits_query:
        request.scope["query_string"] = request.scope["query_string"].replace(b"?", b"&")
    client = await admit_early(request) if row.needs_key else None
    fields = await read_fields(request, row.question.body_list)
    if row.needs_key and client is None:
        client = await admit(request, key_of(request, fields))
    return await row.question.read(fields).respond(Call(request, client))


# ---- OpenAPI


def _docs(dialect: Dialect, row: Row, method: str) -> dict[str, Any]:
    """Arguments for the router that describe the route."""
    question, schema, field = row.question, schema_of(row.question), row.question.body_list
    parameters = [each for each in query_parameters(question) if each["name"] != field]
    extra: dict[str, Any] = {"parameters": parameters}
    if method == "GET" or field:  # then these have no place in the body
        for each in parameters:
            if each["name"] in (example := next(iter(row.examples), {})):
                each |= {"required": True, "example": example[each["name"]]}
    if method == "POST":
        bodies = [example[field] if field else example for example in row.examples]
        numbered = {f"example {number}": {"value": body} for number, body in enumerate(bodies, 1)}
        content = {JSON: {"schema": schema["properties"][field] if field else schema, "examples": numbered}}
        if field is None and not question.is_json_only:
            form = {"schema": form_schema(question), "example": next(iter(bodies), {})}
            content |= {FORM: form, MULTIPART: form}
        extra["requestBody"] = {"required": False, "content": content}
    kinds: tuple[type[ServiceError], ...] = (*ADMISSION_ERRORS, *BODY_ERRORS) if row.needs_key else ()
    kinds += (*TRANSLATION_ERRORS,) if issubclass(question, TextQuestion) else ()
    responses = error_responses(
        *kinds,
        *row.errors,
        renderer=dialect.render_problem,
        schema=_error_schema(dialect),
        others=row.problems,
    )
    for response in responses.values():
        response |= {"model": dialect.error} if dialect.error else {}
        for content in response["content"].values():
            if InvalidFields.slug in content["examples"] and (missing := _missing_fields(dialect, row)):
                content["examples"][InvalidFields.slug]["value"] = missing
    if row.media_types:
        responses[200] = {"content": {media_type: {} for media_type in row.media_types}}
    return {
        "openapi_extra": extra,
        "responses": responses,
        "response_model": row.response,
        "response_class": row.response_class,
    }


def _missing_fields(dialect: Dialect, row: Row) -> Any:
    """The answer to a request without fields, if it needs some."""
    try:
        row.question.read(Fields())
    except InvalidFields as error:
        return example_of(error_response(error, dialect.render_problem))
    return None


def _error_schema(dialect: Dialect) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{dialect.error.__name__}"} if dialect.error else {}


def form_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """The schema of `kind` for forms and queries, where values are strings and never lists or null."""
    schema = schema_of(kind)
    for field in schema.get("properties", {}).values():
        for choice in ("anyOf", "oneOf"):
            types = [option.get("type") for option in field.get(choice, [])]
            if "array" in types or "null" in types:
                del field[choice]
                field["type"] = "string"
                field.pop("default", None)
    return schema


def query_parameters(kind: type[BaseModel]) -> list[dict[str, Any]]:
    """The fields as query parameters; none is required, since they may be in the body."""
    return [
        {"name": name, "in": "query", "description": "As in the body, which takes precedence", "schema": field}
        for name, field in form_schema(kind).get("properties", {}).items()
    ]
