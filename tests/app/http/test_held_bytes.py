"""Responses count until they are sent: long ones over the budget are refused, short ones never; everything is
returned."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from servers import WAIT_S, becomes, post
from shared_fixtures import SHIPPED, Service, listening, serving
from starlette.types import Message, Receive, Scope, Send

from app.http.held_bytes import CHUNK_BYTES, HeldBytes, reserve
from app.http.problems import ErrorRenderers, ProblemResponse
from app.runtime.byte_budgets import SMALL_BYTES, ByteBudget, ByteBudgets, Reservation
from app.server.state import APPLICATION, AppState
from app.translation.attention import Attention, Weights, attend
from benchmarks.overload import document

pytestmark = pytest.mark.slow

SIZE = 200_000
FIELDS = {"source": "en", "target": "fr"}
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def fill(budget: ByteBudget) -> Reservation:
    reservation = Reservation(budget)
    reservation.grow(budget.max_bytes)
    return reservation


def sent(*messages: Message, most: int = 1 << 30, method: str = "GET") -> tuple[list[Message], ByteBudgets]:
    """What becomes of the `messages` of an application that holds ten bytes of its request."""
    found, budgets = list[Message](), ByteBudgets.for_size(most)
    budgets.bodies.peak = 0

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        reserve(scope, budgets.bodies).grow(10)
        for message in messages:
            await send(message)

    async def note(message: Message) -> None:
        found.append({**message, "held": budgets.bodies.used})

    async def receive() -> Message:
        raise AssertionError

    held_bytes = HeldBytes(application, ErrorRenderers({"": ProblemResponse}))
    state = AppState()
    state.budgets = budgets
    scope = {"type": "http", "method": method, "path": "/x", "state": {APPLICATION: state}}
    asyncio.run(held_bytes(scope, receive, note))
    assert budgets.bodies.used == budgets.responses.used == 0
    return found, budgets


def start(length: int | None) -> Message:
    headers = [] if length is None else [(b"content-length", b"%d" % length)]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def body(content: bytes, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 7])
@pytest.mark.parametrize("more", [False, True])
def test_response_in_chunks_is_complete(size: int, more: bool) -> None:
    content = bytes(number % 251 for number in range(size))
    messages = [start(size), body(content, more), *([body(b"")] if more else [])]
    (head, *pieces), budgets = sent(*messages)
    assert head["status"] == 200
    assert b"".join(piece["body"] for piece in pieces) == content
    assert all(len(piece["body"]) <= CHUNK_BYTES for piece in pieces)
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert budgets.responses.peak == (size if size > SMALL_BYTES else 0)


def test_complete_long_response_releases_its_request() -> None:
    long, _ = sent(start(SIZE), body(bytes(SIZE)))
    short, _ = sent(start(10), body(bytes(10)))
    streamed, _ = sent(start(None), body(bytes(10)))
    assert [found[0]["held"] for found in (long, short, streamed)] == [0, 10, 10]


def test_response_to_head_holds_no_bytes() -> None:
    _, budgets = sent(start(SIZE), body(b""), method="HEAD")
    assert budgets.responses.peak == 0


def ask(service: Service, path: str, **options: Any) -> int:
    return service.request("POST", path, **options).status_code


def test_long_responses_without_memory_budget_are_refused_in_their_apis_format(bundle_folder: Path) -> None:
    file = {"file": ("a.docx", document(SIZE), WORD)}
    with serving(bundle_folder) as service:
        answers = service.state.budgets.responses
        address = service.request("POST", "/libretranslate/translate_file", files=file, data=FIELDS).json()
        path = address["translatedFileUrl"].removeprefix("http://test")
        reservation = fill(answers)
        ours = service.request("POST", "/translate/file", files=file, data=FIELDS)
        theirs = service.get(path)
        assert (ours.status_code, theirs.status_code) == (503, 503)
        assert ours.json()["type"] == "urn:interlinear:error:overloaded" and set(theirs.json()) == {"error"}
        assert ours.headers["retry-after"] == theirs.headers["retry-after"] == "1"
        assert ask(service, "/translate", json={"text": "Hello.", **FIELDS}) == 200
        reservation.release()
        fetched = service.get(path)
        assert fetched.status_code == 200 and len(fetched.content) > SIZE / 2
        assert answers.used == 0


def test_attention_holds_its_weights_until_they_are_sent(bundle_folder: Path) -> None:
    asked = {"text": "Hello.", **FIELDS}
    with serving(bundle_folder) as service:
        answers = service.state.budgets.responses
        assert ask(service, "/attention", json=asked) == 200
        assert answers.peak > 0 and answers.used == 0
        fill(answers)
        assert ask(service, "/attention", json=asked) == 503


@pytest.mark.bundle
def test_weights_are_released_on_disconnect_and_not_by_garbage_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = list[ref[Weights]]()

    async def noted(*arguments: Any) -> Attention:
        shown = await attend(*arguments)
        weights.extend(ref(tensor) for tensor in shown.weights.values())
        return shown

    monkeypatch.setattr("app.api.attention.attend", noted)
    # Far more than the system takes for a client that does not read.
    body = json.dumps({"text": "house " * 250, "target_text": "maison", **FIELDS}).encode()
    with listening(SHIPPED / "en-fr") as url:
        host, _, port = url.removeprefix("http://").partition(":")
        gc.disable()
        try:
            with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
                client.sendall(post("/attention", len(body), "Content-Type: application/json") + body)
                assert client.recv(12) == b"HTTP/1.1 200"
            assert becomes(lambda: not any(tensor() is not None for tensor in weights))
            assert [tensor() is None for tensor in weights] == [True] * 3
        finally:
            gc.enable()
