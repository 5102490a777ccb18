"""A job installs one published model. Its state is a file, so that every instance and a later start know it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from model.published import ModelName

State = Literal[
    "queued",
    "finding",
    "downloading",
    "converting",
    "checking",
    "loading",
    "waiting",
    "done",
    "failed",
    "cancelled",
]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")
PAUSES_S = (30.0, 120.0, 600.0, 3600.0)
"""Between attempts."""
MAX_PAUSE_S = 86_400.0
"""However long a server says."""
MAX_ATTEMPTS = 4
"""Of a model that a client asked for; models that the settings name are tried until they are installed."""


class InstallJob(Struct, kw_only=True, omit_defaults=True):
    """How far a model has come."""

    id: str
    model: str
    """As it was asked for, such as firefox:en-es."""
    accepts_licence: bool = False
    """Whether a licence that forbids commercial use is accepted."""
    is_wanted: bool = False
    """Whether the settings name it."""
    asked_at: float = 0.0
    """Unix time."""
    state: State = "queued"
    name: str | None = None
    """The model that was found, such as firefox:en-es@base-memory."""
    source: str | None = None
    target: str | None = None
    licence: str | None = None
    bytes: int = 0
    """Bytes that have arrived."""
    total: int | None = None
    """Bytes to download, as far as they are known."""
    seconds_left: float | None = None
    """Of the download."""
    error: str = ""
    """Why the last attempt failed, as a sentence."""
    retry_at: float = 0.0
    """When a job that is waiting is tried again, as Unix time."""
    attempts: int = 0
    serves: str | None = None
    """The model that serves now."""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def pair(self) -> str:
        """The languages, such as en-es: as they are asked for until the model is found."""
        if self.source and self.target:
            return f"{self.source}-{self.target}"
        return self.model.partition(":")[2].partition("@")[0]

    @property
    def retry_time(self) -> datetime | None:
        return datetime.fromtimestamp(self.retry_at, UTC) if self.state == "waiting" else None

    def begin(self) -> None:
        """A new attempt."""
        self.state, self.attempts, self.error, self.seconds_left = "finding", self.attempts + 1, "", None

    def fail(self, error: str, passes: bool, now: float, retry_after_s: float = 0.0) -> None:
        """The attempt has failed. `passes`: whether the next may succeed without anybody's doing."""
        self.error, self.seconds_left = error, None
        if not self.is_wanted and (not passes or self.attempts >= MAX_ATTEMPTS):
            self.state = "failed"
            return
        pause_s = PAUSES_S[min(self.attempts, len(PAUSES_S)) - 1]
        self.state, self.retry_at = "waiting", now + min(max(pause_s, retry_after_s), MAX_PAUSE_S)

    def summary(self) -> dict[str, Any]:
        """What operators see of it, in JSON."""
        facts = {"model": self.model, "state": self.state, "bytes": self.bytes, "total": self.total}
        retry = self.retry_time
        return {**facts, "error": self.error or None, "retry_at": retry and retry.isoformat(timespec="seconds")}

    def description(self) -> str:
        """The same for people: how far it is, or why it failed and when it is tried again."""
        if self.state == "downloading" and self.total:
            return f"downloading, {self.bytes / 1e6:,.1f} of {self.total / 1e6:,.1f} MB"
        if self.state == "done" and self.serves:
            return f"installed, {self.serves} serves"
        if self.state == "failed":
            return f"failed: {self.error}"
        if retry := self.retry_time:
            return f"failed: {self.error}; it is tried again at {retry:%Y-%m-%d %H:%M:%S} UTC"
        return self.state


def job_id(model: ModelName) -> str:
    """The same for the same model, so that to ask twice makes one job."""
    return hashlib.sha256(str(model).encode()).hexdigest()[:16]
