"""Decides whether the service can translate, which /ready reports on either port."""

from __future__ import annotations

from app.api.schemas.health import InstallingModel, Ready
from app.engine.engine import Engine
from app.errors import Unavailable
from app.published.installer import Installer
from app.runtime.shutdown import Shutdown
from app.services.reload import Deployments
from app.settings import PREFIX

STRICT_MAX_LOAD = 1.0
"""With `strict`, a service with a higher load is not ready: it refuses requests, or is about to."""


def check_ready(engine: Engine, shutdown: Shutdown, strict: bool = False) -> None:
    """Raises Unavailable with the reason."""
    if shutdown.begun and not shutdown.is_replaced:
        raise Unavailable("The service is shutting down.")
    if not engine.ready:
        raise Unavailable(engine.failure or "The workers are loading the bundles and checking their samples.")
    load = engine.metrics.load.current()
    if strict and load > STRICT_MAX_LOAD:
        raise Unavailable(f"The service is saturated: its load is {load:.2f}.")


def readiness(deployments: Deployments, installer: Installer, shutdown: Shutdown, strict: bool) -> Ready:
    """What serves, and what is being installed. Raises Unavailable with the reason if the service is not ready, also
    while it lacks a model that the settings require."""
    current = deployments.current
    check_ready(current.engine, shutdown, strict)
    if deployments.settings.models_required and (missing := installer.required()):
        states = {job.model: job.description() for job in installer.seen}
        named = "; ".join(f"{name}: {states.get(str(name), 'queued')}" for name in missing)
        raise Unavailable(f"{PREFIX}MODELS names models that do not serve yet. {named}.")
    installing = [InstallingModel(**job.summary()) for job in installer.seen if job.state not in ("done", "cancelled")]
    return Ready(models=[bundle.name for bundle in current.translator.catalogue], installing=installing)
