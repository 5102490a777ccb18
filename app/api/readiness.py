"""Whether the service can translate: what /ready says on either port."""

from __future__ import annotations

from app.engine.engine import Engine
from app.errors import Unavailable
from app.runtime.shutdown import Stop


def check_ready(engine: Engine, stop: Stop) -> None:
    """Raises Unavailable, with why."""
    if stop.begun:
        raise Unavailable("The service has been told to stop.")
    if not engine.ready:
        raise Unavailable(engine.failure or "The workers are loading the bundles and checking their samples.")
