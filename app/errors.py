"""What can go wrong and how it is told: RFC 9457 problem details, one exception a kind, drawn here.

Knows HTTP, and nothing of translation. How other services' APIs word a problem is their routes'.

    ServiceError
    ├── WrongHost 400
    ├── NotJSON 400
    ├── NotAuthorised 401
    ├── NotAllowed 403
    ├── PairNotServed 404
    ├── BodyTooSlow 408
    ├── BundlesRefused 409
    ├── TooMuchText 413
    ├── WrongContentType 415
    ├── InvalidFields 422
    ├── TooManyRequests 429
    │   └── TooManyCharacters
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
from typing import Any, ClassVar, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

LIBRETRANSLATES = (
    "LibreTranslate's API, which is at /libretranslate/translate, "
    "or at /translate where INTERLINEAR_ROOT_API=libretranslate"
)
MEDIA_TYPE = "application/problem+json"
M = TypeVar("M", bound=BaseModel)
_METHODS = "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"


class FieldError(BaseModel):
    """What is wrong with one field of the body."""

    pointer: str = Field(description="JSON Pointer (RFC 6901) to the field, as a URI fragment", examples=["#/text/3"])
    detail: str = Field(description="What is wrong with it", examples=["Input should be a valid string"])


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="A name for this kind of error", examples=["urn:interlinear:error:too-much-text"])
    title: str = Field(description="The kind in words", examples=["Too much text"])
    status: int = Field(description="The status of the answer", examples=[413])
    detail: str = Field(description="What went wrong this time", examples=["The text has 120000 characters, over ..."])
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


class WrongHost(ServiceError):
    status, slug, title = 400, "wrong-host", "No host, or more than one"
    example = "A request over HTTP/1.1 has one header Host."


class NotJSON(ServiceError):
    status, slug, title = 400, "not-json", "The body is not JSON"
    example = "Expecting ',' delimiter: line 1 column 17 (char 16)"


class NotAuthorised(ServiceError):
    status, slug, title = 401, "not-authorised", "No valid API key"
    example = "This service wants an API key, and got none or one that it does not know."


class NotAllowed(ServiceError):
    status, slug, title = 403, "not-allowed", "Not for this key"
    example = "This is for keys with the word `admin` in the file of keys."


class PairNotServed(ServiceError):
    status, slug, title = 404, "pair-not-served", "Language pair not served"
    example = "No bundle translates from en to xx. Served: en-fr."


class BodyTooSlow(ServiceError):
    status, slug, title = 408, "body-too-slow", "The body came too slowly"
    example = "The body did not arrive within 60000 ms."


class BundlesRefused(ServiceError):
    status, slug, title = 409, "bundles-refused", "The bundles cannot be served"
    example = "bundles/en-fr: model.safetensors does not match its checksum"


class TooMuchText(ServiceError):
    status, slug, title = 413, "too-much-text", "Too much text"
    example = "The text has 120000 characters, over the limit of 50000."


class WrongContentType(ServiceError):
    status, slug, title = 415, "wrong-content-type", "Wrong content type"
    example = "The body must be application/json; it is text/plain."


class InvalidFields(ServiceError):
    status, slug, title = 422, "invalid-fields", "Wrong fields"
    example = "#/target: Field required"

    @classmethod
    def of(cls, faults: Sequence[FieldError]) -> InvalidFields:
        return cls("; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults[:3]), faults)

    @classmethod
    def at(cls, pointer: str, detail: str) -> InvalidFields:
        """With one fault, at `pointer`: "#/text/3", or "#" for the body as a whole."""
        return cls.of([FieldError(pointer=pointer, detail=detail)])


class TooManyRequests(ServiceError):
    status, slug, title = 429, "too-many-requests", "Too many requests"
    example = "Over the limit of 600/minute requests. Retry after 3 s."


class TooManyCharacters(TooManyRequests):
    slug, title = "too-many-characters", "Too many characters"
    example = "Over the limit of 100000/hour characters. Retry after 90 s."


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


class ASCIIResponse(JSONResponse):
    """JSON in ASCII: words about a wrong body may hold what no encoding can carry, lone surrogates."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode("ascii")


class ProblemResponse(ASCIIResponse):
    """A problem on the wire."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        asked = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else {}
        super().__init__(problem.model_dump(exclude_defaults=True), problem.status, {**(headers or {}), **asked})


def path_of(scope: Scope) -> str:
    """The path that was asked for, less the root path under which a proxy shows the service."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


Voice = Callable[[Problem, dict[str, str]], Response]
"""How an API words a problem, with these headers. ProblemResponse is our own."""


def refusal(error: ServiceError, voice: Voice = ProblemResponse) -> Response:
    """`error` on the wire."""
    retry = error.retry_after_s
    headers = {"Retry-After": str(max(1, math.ceil(retry)))} if retry is not None else {}
    if isinstance(error, (BodyTooSlow, WrongHost)):
        headers["Connection"] = "close"  # the rest is not waited for; who sent it cannot be relied on
    return voice(error.problem(), headers)


class Voices:
    """Who words the problems of which paths: the voice of the longest prefix."""

    def __init__(self, by_prefix: Mapping[str, Voice]) -> None:
        self._by_prefix = sorted(by_prefix.items(), key=lambda entry: -len(entry[0]))

    def of(self, path: str) -> Voice:
        """`path`: as in a scope, less the root path."""
        for prefix, voice in self._by_prefix:
            if path == prefix or path.startswith(f"{prefix}/"):
                return voice
        return ProblemResponse


def add_handlers(app: FastAPI, count: Callable[[str], None], voices: Voices) -> None:
    """Makes every error of `app` a problem, in the voice of its path; `count` is told each one's slug."""

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)
        count(error.slug)
        return refusal(error, voices.of(path_of(request.scope)))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [{**fault, "loc": fault["loc"][1:]} for fault in error.errors()]
        # Of the query alone: no route has FastAPI read a body. What is missing there is told by its name as well.
        return await refuse(request, _invalid_fields(faults, {}))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = HTTPStatus(error.status_code).phrase
        slug = title.lower().replace(" ", "-")
        count(slug)
        detail, headers = str(error.detail), dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = allowed = _allowed(request)
            detail = f"{request.method[:20]} is not offered at {request.url.path[:100]}, which takes {allowed}."
        problem = Problem(type=_type(slug), title=title, status=error.status_code, detail=detail)
        return voices.of(path_of(request.scope))(problem, headers)

    async def unexpected(request: Request, error: Exception) -> Response:
        # Starlette answers these outside of all middleware, so the headers that each answer has are not there yet.
        headers = request.scope.get("state", {}).get("headers")
        return await http(request, HTTPException(500, "A bug; the service's log says where.", headers))

    app.add_exception_handler(ServiceError, refuse)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)


def _allowed(request: Request) -> str:
    """The methods that the path takes. What is refused by one route names that one's alone; others may have more."""
    routes = request.app.router.routes
    methods = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join(methods or ["GET", "HEAD"])  # static files are no routes, and have none


def validated(model: type[M], sent: Any, strict: bool | None = None) -> M:
    """What was sent as a `model`; `strict`: instead of as the model says. Raises InvalidFields."""
    try:
        return model.model_validate(sent, strict=strict)
    except ValidationError as error:
        raise _invalid_fields(error.errors(include_url=False), sent) from None


def _invalid_fields(faults: Sequence[Mapping[str, Any]], body: Any) -> InvalidFields:
    """What pydantic found, as pointers into the body that was sent; `faults` are its errors, places from there on."""
    return InvalidFields.of(
        [
            FieldError(pointer=_pointer(fault["loc"], body), detail=fault["msg"].removeprefix("Value error, "))
            for fault in faults
        ]
    )


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
