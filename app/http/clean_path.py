"""ASGI middleware that accepts paths as clients put them together: doubled slashes, and one at the end."""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from app.server.paths import route_path


class CleanPath:
    """Replaces several slashes by one, and drops the last one of a path below one of `prefixes`."""

    def __init__(self, app: ASGIApp, prefixes: Collection[str]) -> None:
        self.app, self.prefixes = app, frozenset(prefixes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if "//" in path:
                path = re.sub("//+", "/", path)
            if path.endswith("/") and first_part(route_path({**scope, "path": path})) in self.prefixes:
                path = path[:-1]
            scope["path"] = path
        await self.app(scope, receive, send)


def first_part(path: str) -> str:
    """ "/deepl" of "/deepl/v2/translate"."""
    return path[: path.find("/", 1)] if "/" in path[1:] else path
