"""What can go wrong and how it is told: RFC 9457 problem details, one exception a kind, drawn here.

Knows HTTP, and nothing of translation.

    ServiceError
    ├── NotJSON 400
    ├── PairNotServed 404
    ├── BodyTooSlow 408
    ├── TooMuchText 413
    ├── WrongContentType 415
    ├── InvalidFields 422
    ├── ClientLeft 499
    ├── StepFailed 500
    ├── Unavailable 503
    │   └── Overloaded, with Retry-After
    └── DeadlinePassed 504
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

MEDIA_TYPE = "application/problem+json"


class FieldError(BaseModel):
    """What is wrong with one field of the body."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) to the field, as a URI fragment", examples=["#/text/3"])
    detail: str


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(examples=["urn:interlinear:error:too-much-text"])
    title: str
    status: int
    detail: str
    errors: list[FieldError] = Field(default=[], description="The fields at fault, where fields are")


class ServiceError(Exception):
    """Anything that the service tells a client instead of an answer."""

    status: ClassVar[int]
    slug: ClassVar[str]
    title: ClassVar[str]
    example: ClassVar[str]

    def __init__(self, detail: str, errors: Sequence[FieldError] = (), retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail, self.errors, self.retry_after_s = detail, list(errors), retry_after_s

    def problem(self) -> Problem:
        return Problem(
            type=_type(self.slug), title=self.title, status=self.status, detail=self.detail, errors=self.errors
        )


class NotJSON(ServiceError):
    status, slug, title = 400, "not-json", "The body is not JSON"
    example = "Expecting ',' delimiter: line 1 column 17 (char 16)"


class PairNotServed(ServiceError):
    status, slug, title = 404, "pair-not-served", "Language pair not served"
    example = "No bundle translates from en to xx. Served: en-fr."


class BodyTooSlow(ServiceError):
    status, slug, title = 408, "body-too-slow", "The body came too slowly"
    example = "The body did not arrive within 60000 ms."


class TooMuchText(ServiceError):
    status, slug, title = 413, "too-much-text", "Too much text"
    example = "The text has 120000 characters, over the limit of 50000."


class WrongContentType(ServiceError):
    status, slug, title = 415, "wrong-content-type", "Wrong content type"
    example = "The body must be application/json; it is text/plain."


class InvalidFields(ServiceError):
    status, slug, title = 422, "invalid-fields", "Wrong fields"
    example = "#/target: Field required"


class ClientLeft(ServiceError):
    """Nobody reads this answer; the status, nginx's, is for the log and the metrics."""

    status, slug, title = 499, "client-left", "The client closed the connection"


class StepFailed(ServiceError):
    status, slug, title = 500, "step-failed", "The model failed on this text"
    example = "The step that this sentence was in failed; the service's log says why."


class Unavailable(ServiceError):
    status, slug, title = 503, "unavailable", "Not able to translate"
    example = "The engine has stopped: OSError: device lost"


class Overloaded(Unavailable):
    slug, title = "overloaded", "Too much to do"
    example = "The queue is full. Retry after 3 s."


class DeadlinePassed(ServiceError):
    status, slug, title = 504, "deadline-passed", "The deadline passed"
    example = "Not finished within 60000 ms."


class ProblemResponse(Response):
    """A problem on the wire. ASCII, since a wrong body may hold what no encoding can carry: lone surrogates."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(problem.model_dump(exclude_defaults=True))
        super().__init__(body, problem.status, headers)


def refusal(error: ServiceError) -> ProblemResponse:
    """`error` on the wire."""
    retry = error.retry_after_s
    headers = {"Retry-After": str(max(1, math.ceil(retry)))} if retry is not None else {}
    if isinstance(error, BodyTooSlow):
        headers["Connection"] = "close"  # or the rest would still be waited for
    return ProblemResponse(error.problem(), headers)


def documented(*kinds: type[ServiceError]) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may end in these errors, each with an example, for the OpenAPI page."""
    statuses = sorted({kind.status for kind in kinds})
    return {status: _documented_status([kind for kind in kinds if kind.status == status]) for status in statuses}


def _documented_status(kinds: Sequence[type[ServiceError]]) -> dict[str, Any]:
    examples = {
        kind.slug: {"summary": kind.title, "value": kind(kind.example).problem().model_dump(exclude_defaults=True)}
        for kind in kinds
    }
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": examples}}
    response: dict[str, Any] = {"description": "; ".join(kind.title for kind in kinds), "content": content}
    if Overloaded in kinds:
        response["headers"] = {
            "Retry-After": {"description": "When refused for load: seconds", "schema": {"type": "integer"}}
        }
    return response


def add_handlers(app: FastAPI, count: Callable[[str], None]) -> None:
    """Makes every error of `app` a problem; `count` is told each one's slug."""

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)
        count(error.slug)
        return refusal(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await refuse(request, invalid_fields([{**e, "loc": e["loc"][1:]} for e in error.errors()], error.body))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = HTTPStatus(error.status_code).phrase
        slug = title.lower().replace(" ", "-")
        count(slug)
        problem = Problem(type=_type(slug), title=title, status=error.status_code, detail=str(error.detail))
        return ProblemResponse(problem, dict(error.headers or {}))

    async def unexpected(request: Request, error: Exception) -> Response:
        return await http(request, HTTPException(500, "A bug; the service's log says where."))

    app.add_exception_handler(ServiceError, refuse)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def invalid_fields(faults: Sequence[Mapping[str, Any]], body: Any) -> InvalidFields:
    """What pydantic found, as pointers into the body that was sent; `faults` are its errors, places from there on."""
    found = [
        FieldError(pointer=_pointer(fault["loc"], body), detail=fault["msg"].removeprefix("Value error, "))
        for fault in faults
    ]
    return InvalidFields("; ".join(f"{e.pointer}: {e.detail}" for e in found[:3]), found)


def _pointer(location: Sequence[str | int], body: Any) -> str:
    """ "#/text/3" for ("text", "list", 3): what names a place in the body, without pydantic's branch names."""
    places, value = [], body
    for number, place in enumerate(location, start=1):
        inside = isinstance(value, dict) and place in value
        if inside or (isinstance(value, list) and isinstance(place, int)):
            value = value[place]
        elif not (isinstance(value, dict) and number == len(location)):  # the last one may be missing
            continue
        places.append(str(place).replace("~", "~0").replace("/", "~1"))
    return "/".join(["#", *places])


def _type(slug: str) -> str:
    return f"urn:interlinear:error:{slug}"
