"""ASGI middleware: a request that a stopping service gives no more time is answered 503, and not 500."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import Unavailable
from app.http.problems import Voices, refusal
from app.runtime.shutdown import Stop
from app.server.paths import path_of


class CutOff:
    """uvicorn cancels what has not ended in time. `count` is told the error's slug, `voices` word it."""

    def __init__(self, app: ASGIApp, count: Callable[[str], None], voices: Voices) -> None:
        self.app, self.count, self.voices = app, count, voices

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        def note(message: Message) -> Awaitable[None]:
            nonlocal has_begun
            has_begun = True
            return send(message)

        try:
            await self.app(scope, receive, note)
        except asyncio.CancelledError:
            stop: Stop | None = scope.get("state", {}).get("stop")
            if has_begun or stop is None or not stop.begun:
                raise
            self.count(Unavailable.slug)
            error = Unavailable("The service stops, and this was not done in time.")
            await refusal(error, self.voices.of(path_of(scope)))(scope, receive, send)
