"""What routes are given, out of the application's state.

They are coroutines, since FastAPI runs plain functions in a thread, at 50 µs each.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

from fastapi import Depends, Request

from app.deadlines import Deadlines
from app.door import Client, Door, bearer
from app.downloads import Downloads
from app.engine import Engine
from app.errands import Errands
from app.fleet import Fleet
from app.glossary_store import GlossaryStore
from app.metrics import Metrics
from app.room import Place, Room
from app.settings import Settings
from app.translator import Translator


class State(TypedDict):
    """What lives as long as the application runs."""

    settings: Settings
    deadlines: Deadlines
    """Of the setting's length."""
    door: Door
    downloads: Downloads
    errands: Errands[Any]
    """Documents that are translated in the background, for DeepL's API."""
    uploads: Room
    """For files, of those who are known."""
    strangers: Room
    """For files, of those whose key comes with the file."""
    glossaries: GlossaryStore
    """Made over HTTP."""
    metrics: Metrics
    fleet: Fleet
    engine: Engine
    """Of the generation that serves this request; so is `translator`."""
    translator: Translator


async def _engine(request: Request) -> Engine:
    engine: Engine = request.state.engine
    return engine


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.state.metrics
    return metrics


async def _translator(request: Request) -> Translator:
    translator: Translator = request.state.translator
    return translator


async def _client(request: Request) -> Client:
    """Raises NotAuthorised and TooManyRequests."""
    door: Door = request.state.door
    return door.enter(request, bearer(request))


async def _place(request: Request) -> AsyncIterator[Place]:
    uploads: Room = request.state.uploads
    with uploads.place() as place:
        yield place


EngineState = Annotated[Engine, Depends(_engine)]
MetricsState = Annotated[Metrics, Depends(_metrics)]
KnownClient = Annotated[Client, Depends(_client)]
PlaceForFile = Annotated[Place, Depends(_place)]
"""Till the answer is sent. Comes after who asks."""
TranslatorState = Annotated[Translator, Depends(_translator)]
