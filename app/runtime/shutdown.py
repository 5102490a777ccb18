"""The shutdown flag that readiness, connections and the server share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Shutdown:
    """Once `begun`, every response ends its connection, and /ready is 503, unless the process `is_replaced`: it answers
    for the service, which goes on."""

    begun: bool = False
    is_replaced: bool = False
