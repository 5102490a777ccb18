"""Reads a request's body as JSON, within the limit, and notices a client that leaves.

Knows bytes and connections; the fields are the schemas'.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from app.errors import BodyTooSlow, ClientLeft, NotJSON, TooMuchText, WrongContentType

T = TypeVar("T")


class JSONRequest(Request):
    """A request whose body is JSON. `body` and `json` raise what ServiceError has for everything else."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            limit_ms = self.state.settings.deadline_ms
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    self._body = await self._arrived(self.state.settings.max_body_bytes)
            except ClientDisconnect:
                raise ClientLeft("The client left while it sent the body.") from None
            except TimeoutError:
                raise BodyTooSlow(f"The body did not arrive within {limit_ms} ms.") from None
        return self._body

    async def _arrived(self, limit: int) -> bytes:
        body = bytearray()
        async for chunk in self.stream():
            body += chunk
            if len(body) > limit:
                raise TooMuchText(f"The body is over the limit of {limit} bytes.")
        return bytes(body)

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            content_type = self.headers.get("content-type", "").split(";")[0].strip().lower()
            if content_type != "application/json":
                found = content_type or "of no type: the header Content-Type is missing"
                raise WrongContentType(f"The body must be application/json; it is {found}.")
            encoding = self.headers.get("content-encoding", "identity").strip().lower()
            if encoding != "identity":
                raise WrongContentType(f"The body must not be compressed; its Content-Encoding is {encoding}.")
            try:
                self._json = json.loads(await self.body(), parse_constant=_refuse_constant)
            except RecursionError:
                raise NotJSON("The JSON is nested too deeply.") from None
            except ValueError as error:
                raise NotJSON(str(error)) from None
        return self._json


class JSONRoute(APIRoute):
    """A route with a JSON body, read before FastAPI looks at it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_then_handle(request: Request) -> Response:
            request = JSONRequest(request.scope, request.receive)
            await request.json()
            return await handle(request)

        return read_then_handle


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """What `work` returns. If the client leaves first, `work` is cancelled and ClientLeft raised."""
    task = asyncio.ensure_future(work)

    async def cancel_on_leaving() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    watcher = asyncio.create_task(cancel_on_leaving())
    try:
        return await task
    except asyncio.CancelledError:
        if watcher.done():
            raise ClientLeft("The client left before the answer.") from None
        task.cancel()
        raise
    finally:
        watcher.cancel()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
