"""Dependencies of routes, taken from the application's state.

They are coroutines, since FastAPI runs plain functions in a thread, at 50 µs each.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from fastapi import Depends, Request

from app.engine.engine import Engine
from app.http.auth import AccessControl, Client, bearer
from app.runtime.byte_budgets import ByteBudgets
from app.runtime.metrics import Metrics
from app.runtime.shutdown import Stop
from app.runtime.timeouts import Deadlines
from app.server.request_queue import Intake
from app.server.slow_readers import Sending
from app.services.background_jobs import BackgroundJobs
from app.services.downloads import Downloads
from app.services.glossary_store import GlossaryStore
from app.services.reload import Deployments
from app.settings import Settings
from app.translation.translator import Translator


class State(TypedDict):
    """State that lives as long as the application."""

    settings: Settings
    stop: Stop
    deadlines: Deadlines
    """Of `settings.deadline_ms`."""
    budgets: ByteBudgets
    intake: Intake
    """The queue where requests start."""
    access_control: AccessControl
    downloads: Downloads
    background_jobs: BackgroundJobs[Any]
    """Documents that DeepL's API translates in the background."""
    sending: Sending
    """Monitors how responses are sent."""
    glossaries: GlossaryStore
    """Glossaries made over HTTP."""
    metrics: Metrics
    deployments: Deployments
    engine: Engine
    """The engine of the deployment that serves this request; `translator` is of the same deployment."""
    translator: Translator


async def _engine(request: Request) -> Engine:
    engine: Engine = request.state.engine
    return engine


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.state.metrics
    return metrics


async def _stop(request: Request) -> Stop:
    stop: Stop = request.state.stop
    return stop


async def _translator(request: Request) -> Translator:
    translator: Translator = request.state.translator
    return translator


async def _client(request: Request) -> Client:
    """Raises NotAuthorised and TooManyRequests."""
    access_control: AccessControl = request.state.access_control
    return access_control.admit(request, bearer(request))


async def _identified(request: Request) -> Client:
    """Raises NotAuthorised."""
    access_control: AccessControl = request.state.access_control
    return access_control.authenticate(request, bearer(request))


EngineState = Annotated[Engine, Depends(_engine)]
MetricsState = Annotated[Metrics, Depends(_metrics)]
IdentifiedClient = Annotated[Client, Depends(_identified)]
"""Charges nothing to the client's rate."""
KnownClient = Annotated[Client, Depends(_client)]
StopState = Annotated[Stop, Depends(_stop)]
TranslatorState = Annotated[Translator, Depends(_translator)]
