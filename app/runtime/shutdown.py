"""Whether the service has been told to stop: what readiness, connections and the server share. Knows none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Stop:
    """Once `begun`, /ready is 503, and every answer ends its connection."""

    begun: bool = False
