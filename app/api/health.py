"""GET /health, /ready and /metrics: for whoever runs the service. Probes that send HEAD are answered too."""

from __future__ import annotations

from fastapi import APIRouter, Response

from app import errors
from app.manual_parts import ENTERING, documented
from app.metrics import CONTENT_TYPE
from app.routes.dependencies import EngineState, KnownClient, MetricsState, TranslatorState
from app.schemas import Health, Ready

router = APIRouter(tags=["operation"])


@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Is the process alive?")
async def health() -> Health:
    """Answers while the process does, whatever the engine is busy with."""
    return Health()


@router.head("/ready", include_in_schema=False)
@router.get("/ready", summary="Can it translate?", responses=documented(errors.Unavailable))
async def ready(engine: EngineState, translator: TranslatorState) -> Ready:
    """Answers 200 once every bundle's samples came out right, and as long as the engine runs; else 503 and why."""
    if not engine.ready:
        raise errors.Unavailable(engine.failure or "The workers are loading the bundles and checking their samples.")
    return Ready(models=[bundle.name for bundle in translator.catalogue])


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={
        200: {"description": "The metrics", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **documented(*ENTERING),
    },
)
async def metrics(metrics: MetricsState, client: KnownClient) -> Response:
    """Metrics in Prometheus' text format. Where the service wants API keys, this wants one, as `Bearer`."""
    return Response(metrics.exposition(), media_type=CONTENT_TYPE)
