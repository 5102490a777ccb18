"""Reads a request's body as JSON within the limits, and detects when the client disconnects.

The schemas define the fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from typing import Any, NoReturn, TypeVar, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.engine.engine import Engine
from app.errors import BodyTooSlow, ClientLeft, InvalidFields, NotJSON, ServiceError, TooMuchText, WrongContentType
from app.http.auth import AccessControl, Client, bearer
from app.http.held_bytes import reserve
from app.http.problems import LIBRETRANSLATE_HINT, ErrorRenderers, validated
from app.runtime.byte_budgets import ByteBudgets, Reservation
from app.runtime.timeouts import SharedTimeout
from app.server.disconnect import Disconnect
from app.server.paths import route_path
from app.server.request_queue import RequestQueue, UnreadBody
from app.settings import Settings

T = TypeVar("T")
_FORMS = b"application/x-www-form-urlencoded", b"multipart/form-data"


class JSONRequest(Request):
    """A request with a JSON body. `body` and `json` raise a ServiceError for anything else."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            settings: Settings = self.scope["state"]["settings"]
            self._body = await read_body(self, settings.max_body_bytes)
        return self._body

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._check_headers()
            self._json = decoded_json(await self.body())
        return self._json

    def _check_headers(self) -> None:
        # Not `self.headers`, which scans all headers for each lookup.
        headers = dict(self.scope["headers"])
        content_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if content_type != b"application/json":
            hint = f" Forms are for {LIBRETRANSLATE_HINT}." if content_type in _FORMS else ""
            raise wrong_type("application/json", content_type.decode("latin-1"), hint)
        check_uncompressed(headers)


def decoded_json(body: bytes) -> Any:
    """Raises NotJSON."""
    try:
        return _DECODER.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except RecursionError:
        raise NotJSON("The JSON is nested too deeply.") from None
    except ValueError as error:
        raise NotJSON(str(error)) from None


@contextmanager
def receiving_body(request: Request) -> Iterator[Reservation]:
    """Context manager for reading the body of `request`, which yields the reservation for the bytes that arrive.

    Clients whose key is in the body are not yet authenticated, and share a smaller budget. Raises BodyTooSlow and
    ClientLeft.
    """
    state = request.scope["state"]
    settings: Settings = state["settings"]
    body_timeout: SharedTimeout = state["body_timeout"]
    budgets: ByteBudgets = state["budgets"]
    budget = budgets.bodies if "client" in state or state.get("is_known") else budgets.unauthenticated
    unread: UnreadBody | None = state.get("unread")
    try:
        with nullcontext() if unread and unread.is_complete else body_timeout.limit():
            yield reserve(request.scope, budget)
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {settings.deadline_ms} ms.") from None
    except ClientDisconnect:
        raise ClientLeft("The client disconnected while sending the body.") from None


async def read_body(request: Request, limit: int) -> bytes:
    """The body, of at most `limit` bytes. Raises TooMuchText, BodyTooSlow, ClientLeft and Overloaded."""
    body, more = bytearray(), True
    with receiving_body(request) as reservation:
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            mark_read(request.scope, len(piece))
            if len(body) + len(piece) > limit:
                raise too_large("body", limit)
            reservation.grow(len(piece))
            body += piece
            more = message.get("more_body", False)
    return bytes(body)


def mark_read(scope: Scope, size: int) -> None:
    """Tells the connection that `size` bytes of the body were read. Raises Overloaded if it had to drop some."""
    unread: UnreadBody | None = scope["state"].get("unread")
    if unread:
        unread.read(size)


def too_large(what: str, limit: int) -> TooMuchText:
    return TooMuchText(f"The {what} is over the limit of {limit} bytes.")


def wrong_type(expected: str, found: str, hint: str = "") -> WrongContentType:
    """`found`: the header's value, "" if it is missing."""
    found = found or "of no type: the Content-Type header is missing"
    return WrongContentType(f"The body must be {expected}; it is {found}.{hint}")


def check_uncompressed(headers: Mapping[bytes, bytes]) -> None:
    """Raises WrongContentType. `headers`: with names in lower case."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity":
        raise WrongContentType(
            f"The body must not be compressed; its Content-Encoding is {encoding.decode('latin-1')}."
        )


class JSONRoute(APIRoute):
    """A route whose endpoint takes `(body, request)`, where `body` is a pydantic model, and returns a response.

    It reads and validates that body itself: FastAPI would look for every other kind of parameter as well.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.answer

    async def answer(self, request: Request) -> Response:
        """Raises ServiceError."""
        if not isinstance(request, JSONRequest):
            request = JSONRequest(request.scope, request.receive)
        # Before the body is read, like `check_load`.
        access_control: AccessControl = request.scope["state"]["access_control"]
        await access_control.admit(request, bearer(request))
        check_load(request)
        if request.scope["query_string"]:
            raise InvalidFields("This route has no query parameters: its fields belong in the body.")
        body = validated(self._model, await request.json())
        response: Response = await self.endpoint(body, request)
        return response

    @cached_property
    def _model(self) -> type[BaseModel]:
        model: type[BaseModel] = get_type_hints(self.endpoint)["body"]
        return model


class JSONFastPath:
    """ASGI middleware that answers a POST to one of `routes` directly.

    The responses are those of the same routes in `app`. Going through FastAPI's routers and exit stacks takes as long
    as splitting, encoding and rendering a short sentence.
    """

    def __init__(self, app: ASGIApp, routes: Iterable[BaseRoute], renderers: ErrorRenderers, prefix: str = "") -> None:
        self.app, self.renderers = app, renderers
        self.routes = {prefix + route.path: route for route in routes if isinstance(route, JSONRoute)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route(scope)
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        try:
            response = await route.answer(JSONRequest(scope, receive))
        except ServiceError as error:
            response = self.renderers.response(error, scope)
        await response(scope, receive, send)

    def _route(self, scope: Scope) -> JSONRoute | None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        return self.routes.get(route_path(scope))


def check_load(request: Request) -> None:
    """Refuses a request early, before its body is read, if the service is overloaded. Raises Overloaded.

    A client whose key is in the body counts as one at its address.
    """
    state = request.scope["state"]
    request_queue: RequestQueue = state["request_queue"]
    request_queue.check(state.get("delay_s", 0.0))
    engine: Engine = state["engine"]
    client: Client | None = state.get("client")
    access_control: AccessControl = state["access_control"]
    scheduled_as = (client or access_control.client_at(request.scope)).scheduled_as
    engine.scheduler.check(scheduled_as, waited_s=state.get("waited_s", 0.0))


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Returns the result of `work`. If the client disconnects first, cancels `work` and raises ClientLeft."""
    task = asyncio.current_task()
    assert task is not None
    left = False

    def leave() -> None:
        nonlocal left
        left = True
        task.cancel()

    async def leave_on_message() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        leave()

    # Our own connections signal this directly: a task that waits for a message costs much of a short request's time.
    disconnect: Disconnect | None = request.scope.get("state", {}).get("disconnect")
    if disconnect and not disconnect.is_set:
        disconnect.add_callback(leave)
        forget: Callable[[], object] = partial(disconnect.remove_callback, leave)
    else:
        forget = asyncio.create_task(leave_on_message()).cancel
    try:
        return await work
    except asyncio.CancelledError:
        if left and not task.uncancel():  # otherwise someone else cancelled this task as well
            raise ClientLeft("The client disconnected before the response.") from None
        raise
    finally:
        forget()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
