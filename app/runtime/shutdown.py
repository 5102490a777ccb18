"""The shutdown flag that readiness, connections and the server share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Shutdown:
    """Once `begun`, /ready is 503, and every response ends its connection."""

    begun: bool = False
