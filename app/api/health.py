"""GET /health, /ready and /metrics: for whoever runs the service. Probes that send HEAD are answered too."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app import errors
from app.api.dependencies import EngineState, IdentifiedClient, MetricsState, StopState, TranslatorState
from app.api.openapi_parts import documented
from app.api.readiness import check_ready
from app.api.schemas import Health, Ready
from app.runtime.metrics import CONTENT_TYPE

router = APIRouter(tags=["operation"])


@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Is the process alive?")
async def health() -> Health:
    """Answers while the process does, whatever the engine is busy with."""
    return Health()


@router.head("/ready", include_in_schema=False)
@router.get("/ready", summary="Can it translate?", responses=documented(errors.Unavailable))
async def ready(engine: EngineState, translator: TranslatorState, stop: StopState) -> Ready:
    """Answers 200 once every bundle's samples came out right, and as long as the engine runs; else 503 and why."""
    check_ready(engine, stop)
    return Ready(models=[bundle.name for bundle in translator.catalogue])


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **documented(errors.NotAuthorised),
    },
)
async def metrics(metrics: MetricsState, client: IdentifiedClient) -> Response:
    """Metrics in Prometheus' text format. Where the service wants API keys, this wants one, as `Bearer`; it takes
    nothing of the key's rate."""
    return Response(metrics.exposition(), media_type=CONTENT_TYPE)
