"""ASGI middleware that answers 503 instead of 500 to requests cut off by a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import Unavailable
from app.http.problems import ErrorRenderers
from app.server.state import state_of


class ShutdownErrors:
    """Handles requests that uvicorn cancels because they did not finish in time."""

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self.app, self.renderers = app, renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        def note(message: Message) -> Awaitable[None]:
            nonlocal has_begun
            has_begun = True
            return send(message)

        try:
            await self.app(scope, receive, note)
        except asyncio.CancelledError:
            if has_begun or not state_of(scope).app.shutdown.begun:
                raise
            error = Unavailable("The service is shutting down, and this request was not finished in time.")
            await self.renderers.response(error, scope)(scope, receive, send)
