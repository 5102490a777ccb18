"""Every response has an id, which is in its log line; a line is a JSON object without any content of the request."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from shared_fixtures import Service, serving
from starlette.types import Receive, Scope, Send

from app.http.access_log import AccessLog
from app.http.problems import ErrorRenderers, add_handlers
from app.runtime.json_logs import JSONFormatter, PreformattedRecord, TurnHandler, timestamp
from app.runtime.metrics import Metrics

FORMATTER = JSONFormatter()


@pytest.fixture(scope="module")
def believing(bundle_folder: Path) -> Iterator[Service]:
    with serving(bundle_folder, trusted_proxies=["*"]) as service:
        yield service


@pytest.mark.parametrize("path", ["/health", "/translate", "/nowhere", "/docs"])
def test_response_id_is_in_its_log_line(service: Service, caplog: pytest.LogCaptureFixture, path: str) -> None:
    with caplog.at_level("INFO"):
        answer = service.get(path)
    (line,) = [
        json.loads(FORMATTER.format(record)) for record in caplog.records if record.name == "app.http.access_log"
    ]
    assert line["id"] == answer.headers["x-request-id"]
    assert line.keys() == {"time", "level", "id", "method", "route", "status", "ms"}
    assert line["status"] == answer.status_code
    assert abs(datetime.fromisoformat(line["time"]) - datetime.now(UTC)).total_seconds() < 60


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/languages", "/languages"),
        ("/libretranslate/languages", "/libretranslate/languages"),
        ("/deepl/v2/glossaries/a", "/deepl/v2/glossaries/{glossary_id}"),
        ("/deepl/nothing", "other"),
        ("/deepl", "/deepl"),
    ],
)
def test_log_line_names_the_route_of_the_requested_api(
    service: Service, caplog: pytest.LogCaptureFixture, path: str, route: str
) -> None:
    with caplog.at_level("INFO"):
        service.get(path)
    (line,) = [
        json.loads(FORMATTER.format(record)) for record in caplog.records if record.name == "app.http.access_log"
    ]
    assert line["route"] == route


@pytest.mark.parametrize("path", ["/", "/docs", "/nowhere"])
def test_other_sites_cannot_frame_our_pages(service: Service, path: str) -> None:
    assert service.get(path).headers["x-frame-options"] == "DENY"


def test_every_response_has_its_own_id(service: Service) -> None:
    assert len({service.get("/health").headers["x-request-id"] for _ in range(50)}) == 50


def test_only_a_trusted_proxy_may_set_the_id(service: Service, believing: Service) -> None:
    sent = {"X-Request-ID": "abc-123"}
    assert believing.request("GET", "/health", headers=sent).headers["x-request-id"] == "abc-123"
    assert service.request("GET", "/health", headers=sent).headers["x-request-id"] != "abc-123"


@pytest.mark.parametrize(("proxy", "believed"), [("127.0.0.0/8", True), ("10.0.0.0/8", False), ("::1", False)])
def test_id_is_accepted_only_from_a_trusted_proxy(bundle_folder: Path, proxy: str, believed: bool) -> None:
    sent = {"X-Request-ID": "abc-123", "X-Forwarded-For": "10.0.0.1"}
    with serving(bundle_folder, trusted_proxies=[proxy]) as service:
        assert (service.request("GET", "/health", headers=sent).headers["x-request-id"] == "abc-123") == believed


@pytest.mark.parametrize("given_id", ["", 'a"b', "a b", "x" * 129, "é"])
def test_an_id_with_unsafe_characters_is_replaced(believing: Service, given_id: str) -> None:
    sent = {"X-Request-ID": given_id.encode()}
    assert len(believing.request("GET", "/health", headers=sent).headers["x-request-id"]) == 16


def test_deepls_clients_find_the_id_in_their_header(service: Service) -> None:
    answer = service.get("/deepl/v2/nothing")
    assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]
    assert "x-trace-id" not in service.get("/health").headers


def test_internal_error_has_an_id_too(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("bug")

    app = FastAPI()
    app.mount("/", fail)
    add_handlers(app, ErrorRenderers({}))
    app.add_middleware(AccessLog, metrics=Metrics(), apis={})

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {}}, receive, send)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(with_state, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/")

    with caplog.at_level("INFO"):
        answer = asyncio.run(ask())
    assert answer.status_code == 500
    (line,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "app.http.access_log"]
    assert (line["status"], line["id"]) == (500, answer.headers["x-request-id"])


@given(st.text())
def test_log_line_is_always_one_json_object(message: str) -> None:
    try:
        raise ValueError(message)
    except ValueError as error:
        record = logging.LogRecord("a", logging.ERROR, __file__, 1, "%s", (message,), (ValueError, error, None))
    line = FORMATTER.format(record)
    assert "\n" not in line
    read = json.loads(line)
    assert (read["message"], read["level"], read["logger"], read["process"]) == (message, "error", "a", os.getpid())
    assert "ValueError" in read["error"]


def test_a_preformatted_line_is_written_unchanged() -> None:
    assert FORMATTER.format(PreformattedRecord("app.http.access_log", '{"a": "%s"}')) == '{"a": "%s"}'


class Writes(io.StringIO):
    """Records the arguments of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


def test_log_lines_of_one_turn_are_one_write_in_order() -> None:
    stream = Writes()
    handler = TurnHandler()
    handler.setStream(stream)

    async def two_turns() -> None:
        handler.handle(PreformattedRecord("a", "1"))
        handler.handle(PreformattedRecord("a", "2"))
        assert not stream.writes
        await asyncio.sleep(0)
        assert stream.writes == ["1\n2\n"]
        handler.handle(PreformattedRecord("a", "3"))
        handler.handle(logging.LogRecord("a", logging.ERROR, __file__, 1, "4", (), None))
        assert "".join(stream.writes) == "1\n2\n3\n4\n"
        handler.handle(PreformattedRecord("a", "5"))

    asyncio.run(two_turns())
    handler.flush()
    assert "".join(stream.writes) == "1\n2\n3\n4\n5\n"


@given(st.floats(0, 4e9))
def test_timestamp_is_the_current_time(seconds: float) -> None:
    read = datetime.fromisoformat(timestamp(seconds)).timestamp()
    assert seconds - 0.0011 <= read <= seconds


@pytest.mark.parametrize(
    "path", ["/health", "/languages", "/nowhere", "/metrics", "/libretranslate/download_file/a.docx"]
)
def test_responses_are_not_cached_unless_declared(service: Service, path: str) -> None:
    assert service.get(path).headers["cache-control"] == "no-store"


def test_translations_are_not_cached_and_declared_caching_is_respected(service: Service) -> None:
    answer = service.post("/translate", {"text": "Hello.", "source": "en", "target": "fr"})
    assert answer.headers.get_list("cache-control") == ["no-store"]
    assert service.get("/").headers.get_list("cache-control") == ["no-cache"]
    script = next(iter(re.findall(r"/static-offline-docs/[^\"]+[.]js", service.get("/docs").text)))
    assert "cache-control" not in service.get(script).headers


def test_no_path_redirects_to_another_host(service: Service) -> None:
    assert service.post("/translate/", {}).status_code == 404
