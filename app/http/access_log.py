"""Logs and counts every request once: its route, status and time, never its text or address.

Gives each request an id, which is in its log line and in its response.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from os import urandom
from time import perf_counter, time

from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.clean_path import first_part
from app.runtime.json_logs import PreformattedRecord, timestamp
from app.runtime.metrics import Metrics
from app.server.paths import route_path
from app.server.state import RequestState, state_of

ID_HEADER = "X-Request-ID"
_SAFE_ID = re.compile(rb"[A-Za-z0-9._:+/=-]{1,128}")
_CACHE_HEADERS = {b"cache-control", b"etag"}
_DENY_FRAMING = b"x-frame-options", b"DENY"
"""Keeps other sites from framing the API reference, where users type keys."""
_NO_STORE = b"cache-control", b"no-store"
"""For responses without a Cache-Control header: texts are private, and the service's state changes. Some proxies cache
names such as report.docx for hours."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
log = logging.getLogger(__name__)


class AccessLog:
    """ASGI middleware that logs and measures requests, and forbids caching unless a response allows it.

    `apis`: those below a prefix of their own, each with the additional headers in which its clients look for the id.
    `proxies`: addresses and networks, or "*" alone; a request from one of them keeps the id that it has. This
    middleware must therefore run before the one that replaces the proxy's address by the client's.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, apis: Mapping[str, Sequence[str]], proxies: Sequence[str] = ()
    ) -> None:
        self.app, self.metrics, self.apis = app, metrics, apis
        self._trusts_all = list(proxies) == ["*"]
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies if proxy != "*"]
        self._metrics_by_key: dict[tuple[str, str, int], tuple[Counter, Histogram, str]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500
        state = state_of(scope)
        state.waited_s = perf_counter() - state.arrived
        request_id = self._proxy_request_id(scope) or urandom(8).hex()
        prefix = self._prefix(scope)
        state.id_headers = dict.fromkeys((ID_HEADER, *self.apis.get(prefix, ())), request_id)
        headers = [*((name.lower().encode(), request_id.encode()) for name in state.id_headers), _DENY_FRAMING]

        def note_status(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                existing = message.get("headers", ())
                added = headers if any(name in _CACHE_HEADERS for name, _ in existing) else [*headers, _NO_STORE]
                message["headers"] = [*existing, *added]
            return send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            self._count(state, scope["method"], _route_template(scope, prefix), request_id, status)

    def _proxy_request_id(self, scope: Scope) -> str | None:
        """The request's id, if a trusted proxy sent it and it is safe to log."""
        if not self._trusts_all and not self._proxies:
            return None
        value = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        return value.decode() if _SAFE_ID.fullmatch(value) and self._trusts(scope) else None

    def _trusts(self, scope: Scope) -> bool:
        if self._trusts_all:
            return True
        try:
            peer = ipaddress.ip_address(scope["client"][0])
        except (TypeError, ValueError):  # there is no peer, or it has no address
            return False
        return any(peer in proxy for proxy in self._proxies)

    def _prefix(self, scope: Scope) -> str:
        prefix = first_part(route_path(scope))
        return prefix if prefix in self.apis else ""

    def _count(self, state: RequestState, method: str, route: str, request_id: str, status: int) -> None:
        seconds = perf_counter() - state.arrived
        method = method if method in _METHODS else "other"
        key = method, route, status
        if key not in self._metrics_by_key:
            labels = f'"method":"{method}","route":{json.dumps(route)},"status":{status}'
            self._metrics_by_key[key] = (
                self.metrics.requests.labels(*key),
                self.metrics.request_seconds.labels(route),
                labels,
            )
        requests, request_seconds, labels = self._metrics_by_key[key]
        requests.inc()
        request_seconds.observe(seconds)
        if log.isEnabledFor(logging.INFO):
            client = state.client
            # A key's name has no characters that JSON would have to escape.
            key_field = f',"key":"{client.name}"' if client and client.name else ""
            key_field += f',"llm_sentences":{state.llm_sentences}' if state.llm_sentences else ""
            line = f'"level":"info","id":"{request_id}",{labels},"ms":{1000 * seconds:.1f}{key_field}'
            log.handle(PreformattedRecord(log.name, f'{{"time":"{timestamp(time())}",{line}}}'))


def _route_template(scope: Scope, prefix: str) -> str:
    """The route's path template: clients choose paths and methods, and a metric must have few label values.

    `prefix`: that of its API, which FastAPI omits from an included route's path.
    """
    path: str = getattr(scope.get("route"), "path", "other")
    return path if path == "other" or path.startswith(prefix) else prefix + path
