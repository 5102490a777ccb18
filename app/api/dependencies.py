"""Dependencies of routes, taken from the application's state.

They are coroutines, since FastAPI runs plain functions in a thread, at 50 µs each.
"""

from __future__ import annotations

from typing import Annotated, TypedDict, cast

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from app.api.admin_server import AdminServer
from app.documents.processes import DocumentProcesses
from app.engine.engine import Engine
from app.errors import NoTranslationMemory
from app.http.auth import AccessControl, Client, bearer
from app.published.installer import Installer
from app.runtime.byte_budgets import ByteBudgets
from app.runtime.metrics import Metrics
from app.runtime.peers import Peers
from app.runtime.shutdown import Shutdown
from app.runtime.timeouts import SharedTimeout
from app.server.request_queue import RequestQueue
from app.server.slow_readers import SlowReaders
from app.services.adaptation import Adaptations
from app.services.reload import Deployments
from app.settings import Settings
from app.storage.background_jobs import BackgroundJobs
from app.storage.downloads import Downloads
from app.storage.glossary_store import GlossaryStore
from app.storage.translation_memory import TranslationMemory
from app.translation.translator import Translator


class State(TypedDict):
    """State that lives as long as the application."""

    settings: Settings
    prefix: str
    """The path of our own API; "" at the root."""
    shutdown: Shutdown
    body_timeout: SharedTimeout
    """Of `settings.deadline_ms`."""
    budgets: ByteBudgets
    request_queue: RequestQueue
    """The queue where requests start."""
    access_control: AccessControl
    downloads: Downloads
    adaptations: Adaptations
    installer: Installer
    """Installs published models."""
    background_jobs: BackgroundJobs
    """Documents that DeepL's API translates in the background."""
    documents: DocumentProcesses
    """Read and write documents."""
    slow_readers: SlowReaders
    """Monitors how responses are sent."""
    glossaries: GlossaryStore
    """Glossaries made over HTTP."""
    translation_memory: TranslationMemory | None
    """None: the service keeps none."""
    peers: Peers | None
    """The other instances of the service on this machine, if there are several."""
    admin: AdminServer | None
    """The server of the admin port."""
    metrics: Metrics
    deployments: Deployments
    engine: Engine
    """The engine of the deployment that serves this request; `translator` is of the same deployment."""
    translator: Translator


class RequestState(State):
    """The same, with what is known of a request."""

    client: Client
    """Once it is admitted."""
    waited_s: float
    """From the request's arrival until it was read."""


def state_of(request: HTTPConnection) -> RequestState:
    return cast(RequestState, request.scope["state"])


async def _admitted_client(request: Request) -> Client:
    """Raises NotAuthorised and TooManyRequests."""
    return await state_of(request)["access_control"].admit(request, bearer(request))


async def _authenticated_client(request: Request) -> Client:
    """Raises NotAuthorised."""
    return state_of(request)["access_control"].authenticate(request, bearer(request))


async def _translation_memory(request: Request) -> TranslationMemory:
    """Raises NoTranslationMemory."""
    memory = state_of(request)["translation_memory"]
    if memory is None:
        raise NoTranslationMemory(NoTranslationMemory.example)
    return memory


MemoryState = Annotated[TranslationMemory, Depends(_translation_memory)]
AdmittedClient = Annotated[Client, Depends(_admitted_client)]
AuthenticatedClient = Annotated[Client, Depends(_authenticated_client)]
"""Charges nothing to the client's rate."""
