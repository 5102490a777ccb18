"""Responses of /health and /ready."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.published.jobs import State


class Health(BaseModel):
    """The process is responding."""

    status: Literal["ok"] = Field(default="ok", description="The only value")


class InstallingModel(BaseModel):
    """A published model that does not serve yet."""

    model: str = Field(examples=["firefox:en-es"], description="As it was asked for")
    state: State = Field(
        description="How far it is; `waiting`: it failed, and is tried again", examples=["downloading"]
    )
    bytes: int = Field(description="Bytes that have arrived", examples=[12_000_000])
    total: int | None = Field(description="Bytes to download, as far as they are known", examples=[23_000_000])
    error: str | None = Field(description="Why the last attempt failed", examples=[None])
    retry_at: str | None = Field(description="When a model that is `waiting` is tried again", examples=[None])


class Ready(BaseModel):
    """The service can translate: every bundle has passed its sample check."""

    status: Literal["ready"] = Field(default="ready", description="The only value; anything else is an error")
    models: list[str] = Field(examples=[["en-fr@0123456789ab"]], description="Models that are ready")
    installing: list[InstallingModel] = Field(
        default=[], description="Published models that are being installed, are tried again later, or have failed"
    )
