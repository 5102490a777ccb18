"""GET /health, /ready and /metrics, for operators. They also answer HEAD."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app import errors
from app.api.admission import authenticate
from app.api.openapi_parts import error_responses
from app.api.readiness import readiness
from app.api.schemas.health import Health, Ready
from app.api.state import app_of
from app.http.auth import bearer
from app.runtime.metrics import CONTENT_TYPE, exposition

Strict = Annotated[bool, Query(description="Answer 503 also while the service is saturated: a load over 1")]
router = APIRouter(tags=["operation"])


@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Liveness: is the process responding?")
async def health() -> Health:
    """Return 200 as long as the process responds, however busy the engine is."""
    return Health()


@router.head("/ready", include_in_schema=False)
@router.get(
    "/ready",
    summary="Readiness: can the service translate?",
    responses=error_responses(errors.InvalidFields, errors.Unavailable),
)
async def ready(request: Request, strict: Strict = False) -> Ready:
    """Return 200 while the engine runs and every bundle has passed its sample check; otherwise 503 with the reason."""
    app = app_of(request)
    return readiness(app.deployments, app.installer, app.shutdown, strict)


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **error_responses(errors.NotAuthorised),
    },
)
async def metrics(request: Request) -> Response:
    """Return metrics in Prometheus' text format. If the service has API keys, this requires one, as `Bearer`, and
    charges nothing to its rate."""
    authenticate(request, bearer(request))
    found, peers = app_of(request).metrics, app_of(request).peers
    content = await asyncio.to_thread(exposition, found, peers) if peers else exposition(found)
    return Response(content, media_type=CONTENT_TYPE)
