"""Puts the service together: `create_app`. What lives while it runs is in the lifespan's state; nothing is global."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi_offline import FastAPIOffline
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app import manual
from app.access import ID_HEADER, Access
from app.body import StraightToJSON
from app.catalogue import Catalogue
from app.deadlines import Deadlines
from app.door import Door
from app.downloads import Downloads
from app.errands import Errands
from app.errors import ProblemResponse, Voices, add_handlers
from app.fields import AROUND_BYTES
from app.fleet import ByGeneration, Fleet
from app.glossary import load_glossaries
from app.glossary_store import GlossaryStore
from app.link import Launch, WorkerProcess
from app.metrics import Metrics
from app.room import Room
from app.routes import attention, catalogue, deepl, file, health, libretranslate, page, translate
from app.routes.dependencies import State
from app.settings import DEEPL, INTERLINEAR, LIBRETRANSLATE, Settings

OPERATION = "/health", "/ready", "/metrics"
EXPOSED = [ID_HEADER, "Retry-After", "Content-Disposition", "X-Interlinear-Model", "X-Interlinear-Warnings"]
"""Headers that a page of another origin may read."""
DOWNLOADS = 4
"""So many files of the largest size are kept for those who fetch them later."""
UPLOADS, STRANGERS = 16, 4
"""So many may be sent at once by those who are known, and by those whose key comes with the file."""
ERRANDS = 16
"""So many are translated in the background, or wait to be, or to be fetched."""


def create_app(
    settings: Settings, bundles: Catalogue, launch: Launch = WorkerProcess, detect_early: bool = False
) -> FastAPI:
    """The ASGI application that serves `bundles`. Its lifespan starts and stops the engine.

    `detect_early`: what tells languages is loaded at the start, and not when it is first asked for, which then waits.
    Raises SettingsError and BundleError.
    """
    metrics = Metrics()
    door = Door(settings)
    glossaries = load_glossaries(settings.glossaries)
    fleet = Fleet(settings, bundles, launch, metrics, glossaries)
    glossary_store = GlossaryStore(settings.glossary_store, glossaries)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[State]:
        errands = Errands[Any](ERRANDS * settings.max_file_bytes)
        await fleet.start()
        await door.open()
        loading = asyncio.create_task(asyncio.to_thread(fleet.libraries.load)) if detect_early else None
        try:
            yield State(
                settings=settings,
                deadlines=Deadlines(settings.deadline_ms / 1000),
                metrics=metrics,
                door=door,
                downloads=Downloads(DOWNLOADS * settings.max_file_bytes),
                errands=errands,
                uploads=Room(UPLOADS * (settings.max_file_bytes + AROUND_BYTES)),
                strangers=Room(STRANGERS * (settings.max_file_bytes + AROUND_BYTES)),
                glossaries=glossary_store,
                fleet=fleet,
                engine=fleet.current.engine,
                translator=fleet.current.translator,
            )
        finally:
            await errands.close()
            await fleet.stop()
            if loading:
                await loading
            await door.close()

    # As FastAPI, but the assets of /docs come from here and not from the network.
    app: FastAPI = FastAPIOffline(
        redoc_url=None,
        # To be sent to another address is to send text and key again, and in clear if the proxy's scheme is not known.
        redirect_slashes=False,
        title="Interlinear",
        version="0.1.0",
        description=manual.DESCRIPTION,
        openapi_tags=manual.TAGS,
        # FastAPI's own would tell whoever is configured to listen what was in the requests.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=lifespan,
    )
    _add_routes(app, settings, metrics)
    manual.complete(app, with_keys=door.wants_keys)
    _add_middleware(app, settings, metrics)
    return app


def _add_routes(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """And how each API words its errors."""
    ours, theirs = settings.prefixes
    for module in (translate, file, attention, catalogue):
        app.include_router(module.router, prefix=ours)
    app.include_router(health.router)
    app.include_router(libretranslate.router, prefix=theirs)
    app.include_router(deepl.router, prefix=DEEPL)
    app.include_router(page.router)
    voices = {ours: ProblemResponse, theirs: libretranslate.voice, DEEPL: deepl.voice}
    add_handlers(app, metrics.refused, Voices({**voices, **dict.fromkeys(OPERATION, ProblemResponse)}))


def _add_middleware(app: FastAPI, settings: Settings, metrics: Metrics) -> None:
    """What is added last is met first."""
    straight = [*translate.router.routes, *attention.router.routes]
    app.add_middleware(StraightToJSON, routes=straight, count=metrics.refused, prefix=settings.prefixes[0])
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(ByGeneration)
    apis = {INTERLINEAR: (), LIBRETRANSLATE: (), DEEPL: ("X-Trace-ID",)}
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)
    app.add_middleware(Access, metrics=metrics, apis=apis, proxies=settings.trusted_proxies)
