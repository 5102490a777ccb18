"""Accounts for the memory that requests hold: their bodies, and their responses until they are sent.

`app.server.slow_readers` decides when bytes are sent, and drops clients that do not read.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import Overloaded
from app.http.problems import ErrorRenderers
from app.runtime.byte_budgets import SMALL_BYTES, ByteBudget, Reservation
from app.server.state import state_of

CHUNK_BYTES = 1 << 16
"""Long responses are passed on in pieces of this size, each after the previous one is sent. Unsent bytes are then held
once, by the response counted here, and not again by the connection."""


def reserve(scope: Scope, budget: ByteBudget) -> Reservation:
    """Reserves space in `budget` until the request of `scope` ends."""
    reservation = Reservation(budget)
    state_of(scope).reservations.append(reservation)
    return reservation


class HeldBytes:
    """ASGI middleware that releases a request's memory at its end, and limits the total size of long responses.

    A response of more than SMALL_BYTES that does not fit is refused, in the error format of its API.
    """

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self.app, self.renderers = app, renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        budgets = state_of(scope).app.budgets
        is_refused = False

        async def send_held(message: Message) -> None:
            nonlocal is_refused
            if is_refused:
                return
            if message["type"] == "http.response.start" and scope["method"] != "HEAD":
                is_refused = not _reserve_response(scope, budgets.responses, _length(message))
            if is_refused:
                response = self.renderers.response(budgets.responses.overloaded(), scope)
                await response(scope, receive, send)
            elif len(message.get("body", b"")) > CHUNK_BYTES:
                await _send_in_chunks(message, send)
            else:
                await send(message)

        try:
            await self.app(scope, receive, send_held)
        finally:
            _release(scope)


def _reserve_response(scope: Scope, budget: ByteBudget, length: int) -> bool:
    """Reserves space for a response if it is long. Returns whether it may be sent."""
    if length <= SMALL_BYTES:
        return True
    _release(scope)  # the response is complete: the request is no longer needed
    try:
        reserve(scope, budget).grow(length)
    except Overloaded:
        return False
    return True


async def _send_in_chunks(message: Message, send: Send) -> None:
    body: bytes = message["body"]
    for start in range(0, len(body), CHUNK_BYTES):
        end = start + CHUNK_BYTES
        more = end < len(body) or message.get("more_body", False)
        await send({"type": "http.response.body", "body": body[start:end], "more_body": more})


def _release(scope: Scope) -> None:
    reservations = state_of(scope).reservations
    while reservations:
        reservations.pop().release()


def _length(message: Message) -> int:
    """The length of the body, if the response's headers give it."""
    return next((int(value) for name, value in message.get("headers", ()) if name == b"content-length"), 0)
