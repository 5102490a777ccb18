"""Responses of /health and /ready."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Health(BaseModel):
    """The process is responding."""

    status: Literal["ok"] = Field(default="ok", description="The only value")


class Ready(BaseModel):
    """The service can translate: every bundle has passed its sample check."""

    status: Literal["ready"] = Field(default="ready", description="The only value; anything else is an error")
    models: list[str] = Field(examples=[["en-fr@0123456789ab"]], description="Models that are ready")
