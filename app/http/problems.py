"""Error responses: RFC 9457 problem details, or the error format of another service's API, depending on the path.

Converts the exceptions of app.errors, FastAPI and pydantic.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from app.errors import BodyTooSlow, FieldFault, InvalidFields, ServiceError, WrongHost
from app.server.paths import route_path
from app.server.state import state_of

LIBRETRANSLATE_HINT = (
    "LibreTranslate's API, which is at /libretranslate/translate, or at /translate if "
    "INTERLINEAR_ROOT_API=libretranslate"
)
PROBLEM_MEDIA_TYPE = "application/problem+json"
M = TypeVar("M", bound=BaseModel)
_METHODS = "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"


class FieldError(BaseModel):
    """An error in one field of the body."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) to the field, as a URI fragment", examples=["#/text/3"])
    detail: str = Field(description="What is wrong with it", examples=["Input should be a valid string"])


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="Identifies the kind of error", examples=["urn:interlinear:error:too-much-text"])
    title: str = Field(description="The kind of error in words", examples=["Too much text"])
    status: int = Field(description="The response's status code", examples=[413])
    detail: str = Field(
        description="What went wrong in this request", examples=["The text has 120000 characters, over ..."]
    )
    errors: list[FieldError] = Field(default=[], description="The fields at fault, if any")


def problem_of(error: ServiceError) -> Problem:
    return Problem(
        type=_type_urn(error.slug),
        title=error.title,
        status=error.status,
        detail=error.detail,
        errors=[FieldError(pointer=fault.pointer, detail=fault.detail) for fault in error.errors],
    )


class ASCIIResponse(JSONResponse):
    """JSON in ASCII: messages about an invalid body may contain lone surrogates, which no encoding can represent."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


class ProblemResponse(ASCIIResponse):
    """A problem as a response."""

    media_type = PROBLEM_MEDIA_TYPE

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        challenge = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
        super().__init__(problem.model_dump(exclude_defaults=True), problem.status, {**(headers or {}), **challenge})


ErrorRenderer = Callable[[Problem, dict[str, str]], Response]
"""Renders a problem in an API's error format, with these headers. Our own is ProblemResponse."""


def error_response(error: ServiceError, renderer: ErrorRenderer = ProblemResponse) -> Response:
    """`error` as a response."""
    retry = error.retry_after_s
    headers = {"Retry-After": str(max(1, math.ceil(retry)))} if retry is not None else {}
    if isinstance(error, (BodyTooSlow, WrongHost)):
        headers["Connection"] = "close"  # the rest of the body is not read, and the client cannot be relied on
    return renderer(problem_of(error), headers)


class ErrorRenderers:
    """Renders and counts errors. The renderer of a path is the one with the longest matching prefix."""

    def __init__(
        self, by_prefix: Mapping[str, ErrorRenderer], count: Callable[[str], None] = lambda slug: None
    ) -> None:
        """`count` is called with each error's slug."""
        self.count = count
        self._by_prefix = sorted(by_prefix.items(), key=lambda entry: -len(entry[0]))

    def for_path(self, path: str) -> ErrorRenderer:
        """`path`: as in a scope, without the root path."""
        for prefix, renderer in self._by_prefix:
            if path == prefix or path.startswith(f"{prefix}/"):
                return renderer
        return ProblemResponse

    def response(self, error: ServiceError, scope: Scope) -> Response:
        """`error` as a response in the format of the request's path."""
        self.count(error.slug)
        return error_response(error, self.for_path(route_path(scope)))


def add_handlers(app: FastAPI, renderers: ErrorRenderers) -> None:
    """Makes `app` render every error in the format of its path."""

    async def service_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)
        return renderers.response(error, request.scope)

    async def invalid_query(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
        # Only for the query: no route lets FastAPI read a body. What is missing there is also reported by name.
        return await service_error(request, _invalid_fields(faults, {}))

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = HTTPStatus(error.status_code).phrase
        slug = title.lower().replace(" ", "-")
        renderers.count(slug)
        detail, headers = str(error.detail), dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = allowed = _allowed_methods(request)
            detail = f"{request.method[:20]} is not allowed at {request.url.path[:100]}, which accepts {allowed}."
        problem = Problem(type=_type_urn(slug), title=title, status=error.status_code, detail=detail)
        return renderers.for_path(route_path(request.scope))(problem, headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        # Starlette sends these outside of all middleware, so the headers common to all responses are still missing.
        headers = state_of(request).id_headers
        return await http_error(request, HTTPException(500, "Internal error; see the service's log.", headers))

    app.add_exception_handler(ServiceError, service_error)
    app.add_exception_handler(RequestValidationError, invalid_query)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, unexpected)


def _allowed_methods(request: Request) -> str:
    """The methods that the path accepts. A route that refuses a method names only its own; other routes may accept
    more."""
    routes = request.app.router.routes
    methods = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join(methods or ["GET", "HEAD"])  # static files have no route


def validated(model: type[M], content: Any, strict: bool | None = None) -> M:
    """Validates `content` as a `model`; `strict` overrides the model's own setting. Raises InvalidFields."""
    try:
        return model.model_validate(content, strict=strict)
    except ValidationError as error:
        raise _invalid_fields(error.errors(include_url=False), content) from None


def _invalid_fields(faults: Sequence[Mapping[str, Any]], body: Any) -> InvalidFields:
    """Pydantic's errors as pointers into the body; `faults` are its errors, with locations relative to it."""
    return InvalidFields.of(
        [
            FieldFault(pointer=_pointer(fault["loc"], body), detail=fault["msg"].removeprefix("Value error, "))
            for fault in faults
        ]
    )


def _pointer(location: Sequence[str | int], body: Any) -> str:
    """The location in the body, without pydantic's branch names: "#/text/3" for ("text", "list", 3)."""
    parts, value = [], body
    for number, part in enumerate(location, start=1):
        inside = isinstance(value, dict) and part in value
        if inside or (isinstance(value, list) and isinstance(part, int)):
            value = value[part]
        elif not (isinstance(value, dict) and number == len(location)):  # the last one may be missing
            continue
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    return "/".join(["#", *parts])


def _type_urn(slug: str) -> str:
    return f"urn:interlinear:error:{slug}"
