"""Assembles the service in `create_app`. State lives in the lifespan; there are no globals."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.api import (
    adaptation,
    attention,
    docs_page,
    files,
    health,
    installs,
    manual,
    memory,
    models,
    openapi,
    page,
    score,
    translate,
)
from app.api.admin_server import AdminServer, listen_admin
from app.api.deepl.documents import translate_task
from app.api.dialects.dialect import Dialect, paths_of
from app.api.dialects.router import router_of
from app.api.dialects.table import DIALECTS
from app.api.json_routes import JSONFastPath
from app.api.readiness import readiness
from app.api.state import DeploymentMiddleware, State
from app.documents.processes import DocumentProcesses
from app.engine.launch import Launch, WorkerProcess
from app.engine.registry import Catalogue
from app.http.access_log import ID_HEADER, AccessLog
from app.http.auth import AccessControl
from app.http.clean_path import CleanPath, first_part
from app.http.held_bytes import HeldBytes
from app.http.host_check import HostCheck
from app.http.problems import ErrorRenderer, ErrorRenderers, ProblemResponse, add_handlers
from app.http.shutdown_errors import ShutdownErrors
from app.llm.client import LargeModel
from app.published.installer import Installer
from app.runtime.event_loop_lag import LoopLag
from app.runtime.memory_trimming import trim
from app.runtime.metrics import Metrics, exposition
from app.runtime.peers import Peers
from app.runtime.shutdown import Shutdown
from app.server.connection import Connection
from app.server.state import APPLICATION
from app.services.adaptation import Adaptations, obstacle_to_adaptation
from app.services.reload import (
    RELOAD_TIMING,
    Deployments,
    ReloadTiming,
    reload_everywhere,
    reload_for_peer,
)
from app.settings import IN_STORE, PREFIX, Settings, SettingsError, without_password
from app.storage.background_jobs import BackgroundJobs
from app.storage.downloads import Downloads
from app.storage.glossary_store import GlossaryStore
from app.storage.memory_sqlite import SQLiteLog
from app.storage.protocols import MemorySize, Store
from app.storage.store_local import LocalStore
from app.storage.translation_memory import TranslationMemory
from app.text.glossary_files import load_glossaries
from model import __version__

OURS = translate, score, files, attention, memory, models, installs, adaptation
"""The modules of our own API, which is at /interlinear where another takes its paths."""
OPERATION_PATHS = "/health", "/ready", "/metrics"
EXTENSIONS = r"(chrome|moz|safari-web)-extension://.*"
"""Origins of browser extensions, which users install themselves; no page can have one."""
EXPOSED_HEADERS = [
    ID_HEADER,
    "Retry-After",
    "Content-Disposition",
    "X-Interlinear-Model",
    "X-Interlinear-Warnings",
    "X-Interlinear-Report",
]
"""Headers that pages of other origins may read."""
MAX_DOWNLOADS = 4
"""How many files of the maximum size are kept for download."""
MAX_BACKGROUND_JOBS = 16
"""How many documents are translated in the background, waiting, or ready to download."""
FASTAPI_OPTIONS: dict[str, Any] = {
    "docs_url": None,  # FastAPI's loads its assets from the network
    "redoc_url": None,
    # A redirect would send text and key again, unencrypted if the proxy's scheme is unknown.
    "redirect_slashes": False,
    "title": "Interlinear",
    "version": __version__,
    "description": openapi.DESCRIPTION,
    "openapi_tags": [*openapi.TAGS, *({"name": each.title, "description": each.description} for each in DIALECTS)],
    # FastAPI's own handler would pass request contents to any configured listener.
    "telemetry": {"tracing": False, "metrics": False, "logs": False},
}


def create_app(
    settings: Settings,
    bundles: Catalogue,
    launch: Launch = WorkerProcess,
    detect_early: bool = False,
    reload_timing: ReloadTiming = RELOAD_TIMING,
    peers: Peers | None = None,
    admin_listener: socket.socket | None = None,
    trainer: Sequence[str] | None = None,
    importer: Sequence[str] | None = None,
) -> FastAPI:
    """The ASGI application that serves `bundles`. Its lifespan starts and stops the engine.

    `peers`: the other instances of the service, if it has several; then `admin_listener` is the admin port's socket.
    `trainer` and `importer`: the commands that start these; default: those that are installed.
    `detect_early`: load the language detector at startup, rather than delay the first request that needs it. Raises
    SettingsError and BundleError.
    """
    at_root, ours = _root_dialects(settings)
    metrics = Metrics()
    store = _store(settings, metrics)
    access_control = AccessControl(settings, store)
    glossaries = load_glossaries(settings.glossaries)
    shutdown, lag = Shutdown(), LoopLag(metrics.observe_lag)
    turn = peers.turn if peers else nullcontext
    large_model = LargeModel(settings, metrics) if settings.llm else None
    deployments = Deployments(settings, bundles, launch, metrics, glossaries, reload_timing, turn, large_model)
    translation_memory = _translation_memory(settings, store)
    documents = DocumentProcesses()
    translate_document = partial(translate_task, deployments, documents, settings, access_control, translation_memory)
    installer = Installer(
        settings,
        lambda: deployments.current.translator.catalogue,
        partial(reload_everywhere, deployments, peers),
        metrics,
        importer,
    )
    admin = None
    if settings.admin_port is not None:
        admin = AdminServer(
            admin_listener or listen_admin(settings.host, settings.admin_port),
            lag,
            partial(exposition, metrics, peers),
            access_control,
            partial(readiness, deployments, installer, shutdown),
        )
    state = State(
        settings=settings,
        prefix=ours,
        lag=lag,
        shutdown=shutdown,
        metrics=metrics,
        access_control=access_control,
        downloads=Downloads(store, MAX_DOWNLOADS * settings.max_file_bytes),
        background_jobs=BackgroundJobs(store, translate_document, MAX_BACKGROUND_JOBS * settings.max_file_bytes),
        documents=documents,
        adaptations=Adaptations(obstacle_to_adaptation(settings), trainer),
        installer=installer,
        glossaries=GlossaryStore(store, settings.glossary_store, glossaries),
        translation_memory=translation_memory,
        peers=peers,
        admin=admin,
        deployments=deployments,
    )
    app = FastAPI(**FASTAPI_OPTIONS, lifespan=lambda app: _running(state, store, large_model, detect_early))
    renderers = _add_routes(app, at_root, ours, metrics)
    openapi.complete(app, with_keys=access_control.requires_key)
    _add_middleware(app, settings, at_root, ours, metrics, renderers)
    return app


@asynccontextmanager
async def _running(
    state: State, store: Store, large_model: LargeModel | None, detect_early: bool
) -> AsyncIterator[dict[str, State]]:
    """The lifespan."""
    await store.start()
    await state.glossaries.open()
    if state.translation_memory:
        await state.translation_memory.start()
    await state.deployments.start()
    state.installer.start()
    state.background_jobs.open()
    await state.access_control.start()
    state.lag.start()
    state.slow_readers.start()
    trimming = asyncio.create_task(trim(state.budgets.all()))
    if state.admin:
        state.admin.start()
        logging.info("/health, /ready and /metrics are also served on port %d", state.admin.port)
    if state.peers:
        reload = partial(reload_for_peer, state.deployments, asyncio.get_running_loop())
        state.peers.serve({"metrics": state.metrics.families, "reload": reload})
    loading = asyncio.create_task(state.deployments.load_libraries()) if detect_early else None
    try:
        yield {APPLICATION: state}
    finally:
        await state.installer.stop()
        await state.adaptations.discard()
        await state.background_jobs.close()
        await state.documents.stop()
        await state.deployments.stop()
        if large_model:
            await large_model.close()
        if loading:
            await loading
        await state.access_control.stop()
        if state.translation_memory:
            await state.translation_memory.stop()
        await store.stop()
        state.lag.stop()
        state.slow_readers.stop()
        trimming.cancel()
        if state.admin:
            state.admin.stop()
        if state.peers:
            state.peers.stop()


def _store(settings: Settings, metrics: Metrics) -> Store:
    """Raises SettingsError."""
    if not settings.store:
        return LocalStore()
    if settings.glossary_store:
        raise SettingsError(
            f"{PREFIX}GLOSSARY_STORE and {PREFIX}STORE: only one of them can keep the glossaries made over HTTP; "
            "remove one"
        )
    name = f"{PREFIX}STORE={without_password(settings.store)}"
    try:
        from app.storage.store_valkey import ValkeyStore
    except ImportError:
        raise SettingsError(f"{name}: redis is not installed; run pip install 'interlinear[scale]'") from None
    try:
        return ValkeyStore(settings.store, metrics.store_available.set)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None


def _translation_memory(settings: Settings, store: Store) -> TranslationMemory | None:
    """Raises SettingsError."""
    place = settings.translation_memory
    if place is None:
        return None
    limits = MemorySize(settings.translation_memory_pairs, settings.translation_memory_bytes)
    if (place == IN_STORE) != store.is_shared:
        raise SettingsError(
            f"{PREFIX}TRANSLATION_MEMORY={place}: "
            + (
                f"{PREFIX}STORE is not set"
                if place == IN_STORE
                else f"with {PREFIX}STORE, translation memories are there; write {IN_STORE}"
            )
        )
    if place == IN_STORE:
        from app.storage.memory_valkey import ValkeyLog
        from app.storage.store_valkey import ValkeyStore

        assert isinstance(store, ValkeyStore)
        return TranslationMemory(ValkeyLog(store, limits))
    return TranslationMemory(SQLiteLog(Path(place), limits))


def _root_dialects(settings: Settings) -> tuple[list[Dialect], str]:
    """The dialects that are at the root as well, and the path of our own API. Raises SettingsError."""
    taken: dict[str, str] = {}
    chosen = [dialect for dialect in DIALECTS if dialect.name in settings.root_api]
    for dialect in chosen:
        for path in dialect.paths:
            if path in taken:
                raise SettingsError(
                    f"{PREFIX}ROOT_API: {taken[path]} and {dialect.name} both have {path}; one of them can be at /"
                )
            taken[path] = dialect.name
    ours = set[str]().union(*(paths_of(module.router) for module in OURS))
    return chosen, "/interlinear" if ours & taken.keys() else ""


def _add_routes(app: FastAPI, at_root: Sequence[Dialect], ours: str, metrics: Metrics) -> ErrorRenderers:
    """Adds the routes, and returns each API's error format."""
    for module in OURS:
        app.include_router(module.router, prefix=ours)
    app.include_router(health.router)
    by_prefix: dict[str, ErrorRenderer] = {"": at_root[0].render_problem if ours else ProblemResponse}
    by_prefix[ours] = ProblemResponse
    for dialect in DIALECTS:
        router = router_of(dialect)
        app.include_router(router, prefix=dialect.prefix)
        app.add_api_route(dialect.prefix, partial(_about, dialect), include_in_schema=False)
        by_prefix[dialect.prefix] = dialect.render_problem
        if dialect in at_root:
            app.include_router(router, include_in_schema=False)
            by_prefix |= {path.partition("{")[0].rstrip("/"): dialect.render_problem for path in dialect.paths}
    app.include_router(page.router)
    app.include_router(docs_page.router)
    app.mount(docs_page.ASSETS, docs_page.ASSET_FILES)
    app.mount(manual.PATH, manual.Manual())
    by_prefix |= dict.fromkeys(OPERATION_PATHS, ProblemResponse)
    renderers = ErrorRenderers(by_prefix, metrics.count_refusal)
    add_handlers(app, renderers)
    return renderers


async def _about(dialect: Dialect) -> dict[str, object]:
    """The response at a dialect's own address, as DeepLX's, for clients that ask whether anything is there."""
    return {"code": 200, "message": dialect.description}


def _add_middleware(
    app: FastAPI, settings: Settings, at_root: Sequence[Dialect], ours: str, metrics: Metrics, renderers: ErrorRenderers
) -> None:
    """Adds the middleware; the last one added runs first."""
    json_routes = [*translate.router.routes, *score.router.routes, *attention.router.routes]
    app.add_middleware(JSONFastPath, routes=json_routes, renderers=renderers, prefix=ours)
    app.add_middleware(HostCheck, renderers=renderers)
    app.add_middleware(ShutdownErrors, renderers=renderers)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_origin_regex=EXTENSIONS,
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=EXPOSED_HEADERS,
    )
    app.add_middleware(DeploymentMiddleware)
    app.add_middleware(HeldBytes, renderers=renderers)
    if settings.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.trusted_proxies)
    apis: dict[str, Sequence[str]] = {dialect.prefix: dialect.id_headers for dialect in DIALECTS} | {"/interlinear": ()}
    for dialect in at_root:
        apis |= {first_part(path): dialect.id_headers for path in dialect.paths}
    app.add_middleware(AccessLog, metrics=metrics, apis=apis, proxies=settings.trusted_proxies)
    app.add_middleware(CleanPath, prefixes=apis)


def server_options(settings: Settings) -> dict[str, Any]:
    """Arguments for uvicorn."""
    return {
        "http": Connection,
        "host": settings.host,
        "port": settings.port,
        "root_path": settings.root_path,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # the application reads them itself, and knows which peer sent them
        "ws": "none",
        # Longer than the minute for which proxies keep idle connections open: if we closed first, a request already on
        # its way would be lost.
        "timeout_keep_alive": 75,
        # The watchdog allows 28 s; eight of them are left for what comes after the requests.
        "timeout_graceful_shutdown": 20,
    }
