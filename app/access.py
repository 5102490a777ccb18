"""One line in the log and one count for every request: its route, status and time, never its text or address."""

from __future__ import annotations

import logging
from time import perf_counter, time

from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.metrics import Metrics

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
log = logging.getLogger(__name__)


class Line(logging.LogRecord):
    """A record of a request. What is the same for all of them, where in the source and which thread, is not looked up
    again: to do so takes longer than to write the line."""

    def __init__(self, *args: object) -> None:
        now = time()
        self.__dict__.update(_BLANK, args=args, created=now, msecs=1000 * (now % 1))


_BLANK = vars(logging.LogRecord(log.name, logging.INFO, __file__, 0, "%s %s %d %.0f ms", (), None))


class Access:
    """ASGI middleware that logs and measures."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500
        started = perf_counter()

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        finally:
            self._count(scope, status, perf_counter() - started)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        # The route's template: clients choose paths and methods, and a metric's labels must stay few.
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        key = method, route, status
        if key not in self._series:
            self._series[key] = self.metrics.requests.labels(*key), self.metrics.request_seconds.labels(route)
        requests, request_seconds = self._series[key]
        requests.inc()
        request_seconds.observe(seconds)
        if log.isEnabledFor(logging.INFO):
            log.handle(Line(method, route, status, seconds * 1000))
