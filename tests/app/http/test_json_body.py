"""Routes with a JSON body: the fast path gives the same results as the slow one, and disconnects are noticed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from shared_fixtures import Service, serving

from app.api.json_routes import JSONFastPath
from app.errors import ClientLeft
from app.http.json_body import while_connected
from app.server.disconnect import Disconnect
from app.server.state import state_of

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
JSON = {"content-type": "application/json"}


def request(*messages: str) -> Request:
    """A request whose client sends nothing more than `messages`."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return {"type": left.pop(0)}

    return Request({"type": "http", "state": {}}, receive)


def test_fields_in_the_query_are_refused_rather_than_ignored(service: Service) -> None:
    answer = service.post("/translate?format=html", {**HELLO, "text": "<b>Hello.</b>"})
    assert answer.status_code == 422
    assert "its fields belong in the body" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("POST", "/translate", {"json": HELLO}),
        ("POST", "/translate", {"json": {**HELLO, "text": []}}),
        ("POST", "/translate", {"json": {**HELLO, "target": "xx"}}),
        ("POST", "/translate", {"json": {**HELLO, "target": 1}}),
        ("POST", "/translate", {"content": b"{", "headers": JSON}),
        ("POST", "/translate", {"content": b"null", "headers": JSON}),
        ("POST", "/translate", {"content": b"{}"}),
        ("POST", "/translate?format=html", {"json": HELLO}),
        ("POST", "/attention", {"json": HELLO}),
        ("POST", "/attention", {"json": {**HELLO, "layers": [9]}}),
        ("POST", "/translate/", {"json": HELLO}),
        ("PUT", "/translate", {"json": HELLO}),
        ("GET", "/health", {}),
    ],
)
def test_fast_and_slow_parsing_give_the_same_result(
    service: Service, bundle_folder: Path, method: str, path: str, options: dict[str, Any]
) -> None:
    straight = service.request(method, path, **options)
    with serving(bundle_folder) as other:
        middleware: list[Any] = other.app.user_middleware
        (shortcut,) = (entry for entry in middleware if entry.cls is JSONFastPath)
        middleware.remove(shortcut)
        long = other.request(method, path, **options)
    for answer in (straight, long):
        assert answer.headers.pop("x-request-id")  # each has its own
    assert (straight.status_code, straight.headers) == (long.status_code, long.headers)
    assert straight.content == long.content


def test_json_in_any_unicode_encoding_is_read(service: Service) -> None:
    answers = [
        service.request("POST", "/translate", content=json.dumps(HELLO).encode(encoding), headers=JSON)
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32-be")
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.content for answer in answers}) == 1


def test_disconnecting_client_cancels_the_work() -> None:
    cancelled: list[bool] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(ClientLeft):
        asyncio.run(while_connected(request("http.request", "http.disconnect"), endless()))
    assert cancelled == [True]


def test_disconnect_is_detected_without_waiting_for_a_message() -> None:
    async def scenario() -> int:
        disconnect = Disconnect(lambda: resumed.append(True))
        left = request()
        state_of(left).disconnect = disconnect
        working = asyncio.create_task(while_connected(left, asyncio.Event().wait()))
        await asyncio.sleep(0)
        tasks = len(asyncio.all_tasks())
        disconnect.set()
        with pytest.raises(ClientLeft):
            await working
        return tasks

    resumed: list[bool] = []
    assert asyncio.run(scenario()) == 2  # this one and the work
    assert resumed == [True]


def test_client_that_left_before_the_work_began_cancels_it() -> None:
    async def scenario() -> None:
        disconnect = Disconnect(lambda: None)
        disconnect.set()
        left = request("http.disconnect")
        state_of(left).disconnect = disconnect
        await while_connected(left, asyncio.Event().wait())

    with pytest.raises(ClientLeft):
        asyncio.run(scenario())


def test_work_cancelled_elsewhere_is_not_blamed_on_the_client() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(while_connected(request(), asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scenario())


def test_connected_client_gets_the_result_or_the_error() -> None:
    async def work() -> int:
        return 5

    async def faulty() -> None:
        raise ValueError("5")

    assert asyncio.run(while_connected(request(), work())) == 5
    with pytest.raises(ValueError, match="5"):
        asyncio.run(while_connected(request(), faulty()))
