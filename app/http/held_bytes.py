"""Accounts for the memory that requests hold: their bodies, and their responses until they are sent.

`app.server.slow_readers` decides when bytes are sent, and drops clients that do not read.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import Overloaded
from app.http.problems import ErrorRenderers
from app.runtime.byte_budgets import SMALL_BYTES, ByteBudget, ByteBudgets, Reservation

CHUNK_BYTES = 1 << 16
"""Long responses are passed on in pieces of this size, each after the previous one is sent. Unsent bytes are then held
once, by the response counted here, and not again by the connection."""


def reserve(scope: Scope, budget: ByteBudget) -> Reservation:
    """Reserves space in `budget` until the request of `scope` ends."""
    reservation = Reservation(budget)
    reservations: list[Reservation] = scope["state"].setdefault("reservations", [])
    reservations.append(reservation)
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
        try:
            await self.app(scope, receive, _Response(self.renderers, scope, receive, send).send)
        finally:
            _release(scope)


class _Response:
    """One response in progress."""

    __slots__ = "_is_refused", "_receive", "_renderers", "_scope", "_send"

    def __init__(self, renderers: ErrorRenderers, scope: Scope, receive: Receive, send: Send) -> None:
        self._renderers, self._scope, self._receive, self._send = renderers, scope, receive, send
        self._is_refused = False

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            if _length(message) > SMALL_BYTES and self._scope["method"] != "HEAD" and not self._reserve_body(message):
                await self._refuse()
                return
        elif len(message.get("body", b"")) > CHUNK_BYTES:
            await self._send_in_chunks(message)
            return
        await self._send(message)

    def _reserve_body(self, message: Message) -> bool:
        _release(self._scope)  # the response is complete: the request is no longer needed
        budgets: ByteBudgets = self._scope["state"]["budgets"]
        try:
            reserve(self._scope, budgets.responses).grow(_length(message))
        except Overloaded:
            return False
        return True

    async def _refuse(self) -> None:
        budgets: ByteBudgets = self._scope["state"]["budgets"]
        self._is_refused = True
        response = self._renderers.response(budgets.responses.overloaded(), self._scope)
        await response(self._scope, self._receive, self._send)

    async def _send_in_chunks(self, message: Message) -> None:
        body: bytes = message["body"]
        for start in range(0, len(body), CHUNK_BYTES):
            end = start + CHUNK_BYTES
            more = end < len(body) or message.get("more_body", False)
            await self._send({"type": "http.response.body", "body": body[start:end], "more_body": more})


def _release(scope: Scope) -> None:
    for reservation in scope["state"].pop("reservations", ()):
        reservation.release()


def _length(message: Message) -> int:
    """The length of the body, if the response's headers give it."""
    for name, value in message.get("headers", ()):
        if name == b"content-length":
            return int(value)
    return 0
