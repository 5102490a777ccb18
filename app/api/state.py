"""The application's whole state, and what serves a request from beginning to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.admin_server import AdminServer
from app.documents.processes import DocumentProcesses
from app.http.auth import AccessControl
from app.published.installer import Installer
from app.runtime.metrics import Metrics
from app.runtime.peers import Peers
from app.server.state import AppState, state_of
from app.services.adaptation import Adaptations
from app.services.reload import Deployment, Deployments
from app.storage.background_jobs import BackgroundJobs
from app.storage.downloads import Downloads
from app.storage.glossary_store import GlossaryStore
from app.storage.translation_memory import TranslationMemory
from app.translation.translator import Translator


@dataclass(slots=True, kw_only=True)
class State(AppState):
    """What lives as long as the application."""

    prefix: str
    """The path of our own API; "" at the root."""
    access_control: AccessControl
    downloads: Downloads
    adaptations: Adaptations
    installer: Installer
    background_jobs: BackgroundJobs
    """Documents that DeepL's API translates in the background."""
    documents: DocumentProcesses
    """Read and write documents."""
    glossaries: GlossaryStore
    """Glossaries made over HTTP."""
    translation_memory: TranslationMemory | None
    """None: the service keeps none."""
    peers: Peers | None
    """The other instances of the service on this machine, if there are several."""
    admin: AdminServer | None
    metrics: Metrics
    deployments: Deployments


def app_of(scope: Mapping[str, Any]) -> State:
    """The application's state, given a request or its scope."""
    found = state_of(scope).app
    assert isinstance(found, State)
    return found


def deployment_of(scope: Mapping[str, Any]) -> Deployment:
    """The deployment that serves a request."""
    found = state_of(scope).deployment
    assert isinstance(found, Deployment)
    return found


def translator_of(scope: Mapping[str, Any]) -> Translator:
    return deployment_of(scope).translator


class DeploymentMiddleware:
    """ASGI middleware: one deployment serves each request from beginning to end."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with app_of(scope).deployments.current as deployment:
            state_of(scope).deployment = deployment
            await self.app(scope, receive, send)
