"""Decides whether the service can translate, which /ready reports on either port."""

from __future__ import annotations

from app.engine.engine import Engine
from app.errors import Unavailable
from app.runtime.shutdown import Shutdown

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
