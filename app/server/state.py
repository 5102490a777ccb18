"""The state of the application and of each request, which connections, middleware and routes share.

ASGI has a place for both, `scope["state"]`; only this module and the lifespan look there.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from app.runtime.byte_budgets import FORM_OVERHEAD_BYTES, ByteBudgets, Reservation
from app.runtime.event_loop_lag import LoopLag
from app.runtime.rate_limits import Client
from app.runtime.shutdown import Shutdown
from app.runtime.timeouts import SharedTimeout
from app.server.disconnect import Disconnect
from app.server.request_queue import MAX_DELAY_S, RequestQueue, UnreadBody
from app.server.slow_readers import SlowReaders
from app.settings import Settings

APPLICATION = "application"
"""The key of the application's state in that of the lifespan."""
_REQUEST = "request"


@dataclass(slots=True, kw_only=True)
class AppState:
    """What lives as long as the application, as far as it is used below `app.api`, whose class has the rest."""

    settings: Settings = field(default_factory=Settings)
    lag: LoopLag = field(default_factory=LoopLag)
    shutdown: Shutdown = field(default_factory=Shutdown)
    body_timeout: SharedTimeout = field(init=False)
    budgets: ByteBudgets = field(init=False)
    request_queue: RequestQueue = field(init=False)
    """The queue where requests start."""
    slow_readers: SlowReaders = field(init=False)
    """Monitors how responses are sent."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.body_timeout = SharedTimeout(settings.deadline_ms / 1000)
        self.budgets = ByteBudgets.for_size(max(settings.max_file_bytes + FORM_OVERHEAD_BYTES, settings.max_body_bytes))
        max_delay_s = max(MAX_DELAY_S, settings.max_wait_ms / 1000)
        self.request_queue = RequestQueue(self.lag, self.budgets.unread, max_delay_s)
        self.slow_readers = SlowReaders(settings.send_timeout_ms / 1000, self.budgets.responses)


@dataclass(slots=True)
class RequestState:
    """What is known of a request. A request that came through no connection of ours has no `disconnect` and no
    `unread`."""

    app: AppState
    arrived: float = field(default_factory=perf_counter)
    """When its first byte arrived (perf_counter)."""
    disconnect: Disconnect | None = None
    unread: UnreadBody | None = None
    delay_s: float = 0.0
    """How long it was predicted to wait before it starts."""
    waited_s: float = 0.0
    """From its arrival until it was read."""
    id_headers: dict[str, str] = field(default_factory=dict)
    """The headers of every response to it."""
    client: Client | None = None
    """Once it is authenticated."""
    is_known: bool = False
    """Whether its body may count as an authenticated client's before it is."""
    deployment: object = None
    """What serves it from beginning to end; `app.api.state` knows its type."""
    reservations: list[Reservation] = field(default_factory=list)
    """What it holds of the budgets until it ends."""
    llm_sentences: int = 0
    """How many sentences a large model translated."""

    @property
    def admitted(self) -> Client:
        """The client of a request that has been admitted."""
        assert self.client
        return self.client


def app_state(states: MutableMapping[str, Any]) -> AppState:
    """The application's state. `states`: those of the lifespan, or `scope["state"]` of a request."""
    if APPLICATION not in states:
        states[APPLICATION] = AppState()
    found: AppState = states[APPLICATION]
    return found


def state_of(scope: Mapping[str, Any]) -> RequestState:
    """The state of a request, given its ASGI scope or itself."""
    states = scope["state"]
    if _REQUEST not in states:
        states[_REQUEST] = RequestState(app_state(states))
    found: RequestState = states[_REQUEST]
    return found
