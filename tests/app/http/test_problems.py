"""Every error is a problem (RFC 9457), whatever caused it."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from app.errors import Overloaded, ServiceError
from app.http.problems import ErrorRenderers, add_handlers


def answered(error: Exception) -> tuple[httpx.Response, list[str]]:
    """The response to a client of a route that raises `error`, and the counted errors."""

    async def fail() -> None:
        raise error

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": {}}, receive, send)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(with_state, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get("/")

    counted: list[str] = []
    app = FastAPI()
    app.add_api_route("/", fail)
    add_handlers(app, ErrorRenderers({}, counted.append))
    return asyncio.run(ask()), counted


def kinds(root: type[ServiceError] = ServiceError) -> list[type[ServiceError]]:
    return [kind for child in root.__subclasses__() for kind in (child, *kinds(child))]


@pytest.mark.parametrize("kind", kinds())
def test_service_error_is_a_problem_with_its_own_status_and_type(kind: type[ServiceError]) -> None:
    response, counted = answered(kind("what happened"))
    assert response.status_code == kind.status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": f"urn:interlinear:error:{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": "what happened",
    }
    assert counted == [kind.slug]


def test_every_kind_of_problem_has_its_own_type() -> None:
    slugs = [kind.slug for kind in kinds()]
    assert len(set(slugs)) == len(slugs)


@pytest.mark.parametrize(("seconds", "header"), [(0.1, "1"), (2.1, "3")])
def test_retry_after_is_a_positive_number_of_seconds(seconds: float, header: str) -> None:
    assert answered(Overloaded("full", retry_after_s=seconds))[0].headers["retry-after"] == header


def test_internal_error_is_a_problem_without_details() -> None:
    response, counted = answered(RuntimeError("secret"))
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text
    assert counted == ["internal-server-error"]
