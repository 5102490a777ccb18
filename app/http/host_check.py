"""ASGI middleware that refuses requests without exactly one host.

Otherwise a proxy and the service could disagree about the host of a request that has two Host headers.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import WrongHost
from app.http.problems import ErrorRenderers


class HostCheck:
    """Implements RFC 9112, section 3.2; HTTP/1.0 may omit the host."""

    def __init__(self, app: ASGIApp, renderers: ErrorRenderers) -> None:
        self.app, self.renderers = app, renderers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_fine(scope):
            await self.app(scope, receive, send)
            return
        error = WrongHost("An HTTP/1.1 request must have exactly one Host header.")
        await self.renderers.response(error, scope)(scope, receive, send)

    def _is_fine(self, scope: Scope) -> bool:
        hosts = [name for name, _ in scope["headers"]].count(b"host")
        return hosts == 1 or (hosts == 0 and scope.get("http_version") == "1.0")
