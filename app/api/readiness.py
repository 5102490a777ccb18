"""Decides whether the service can translate, which /ready reports on either port."""

from __future__ import annotations

from app.engine.engine import Engine
from app.errors import Unavailable
from app.runtime.shutdown import Shutdown


def check_ready(engine: Engine, shutdown: Shutdown) -> None:
    """Raises Unavailable with the reason."""
    if shutdown.begun:
        raise Unavailable("The service is shutting down.")
    if not engine.ready:
        raise Unavailable(engine.failure or "The workers are loading the bundles and checking their samples.")
