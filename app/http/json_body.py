"""Reads a request's body as JSON within the limits, and detects when the client disconnects.

The schemas define the fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NoReturn, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from app.errors import BodyTooSlow, ClientLeft, NotJSON, TooMuchText, WrongContentType
from app.http.held_bytes import reserve
from app.http.problems import LIBRETRANSLATE_HINT
from app.runtime.byte_budgets import Reservation
from app.server.state import state_of

T = TypeVar("T")
_FORMS = b"application/x-www-form-urlencoded", b"multipart/form-data"


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises WrongContentType, NotJSON and what `read_body` raises."""
    headers = dict(request.scope["headers"])  # not `request.headers`, which scans all of them for each lookup
    content_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if content_type != b"application/json":
        hint = f" Forms are for {LIBRETRANSLATE_HINT}." if content_type in _FORMS else ""
        raise wrong_type("application/json", content_type.decode("latin-1"), hint)
    check_uncompressed(headers)
    return decoded_json(await read_body(request))


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
    state = state_of(request)
    app, unread = state.app, state.unread
    budget = app.budgets.bodies if state.client or state.is_known else app.budgets.unauthenticated
    try:
        with nullcontext() if unread and unread.is_complete else app.body_timeout.limit():
            yield reserve(request.scope, budget)
    except TimeoutError:
        raise BodyTooSlow(f"The body did not arrive within {app.settings.deadline_ms} ms.") from None
    except ClientDisconnect:
        raise ClientLeft("The client disconnected while sending the body.") from None


async def read_body(request: Request, limit: int | None = None) -> bytes:
    """The body, of at most `limit` bytes; default: as the settings say. Raises TooMuchText, BodyTooSlow, ClientLeft and
    Overloaded."""
    body, more = bytearray(), True
    limit = state_of(request).app.settings.max_body_bytes if limit is None else limit
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
    if unread := state_of(scope).unread:
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
    disconnect = state_of(request).disconnect
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
