"""The fields with which a request chooses the model, and how the log is told which one translated."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from pydantic import Field

from app.translation.types import EngineOption, Translations

Engine = Annotated[
    EngineOption | None,
    Field(
        description="Which model translates, if the service has a large one: `local`, the bundle; `llm`, the large "
        "model; `auto`, the large model those sentences whose `quality` would be low. Default: as the service is set up"
    ),
]
LlmBelow = Annotated[
    float | None,
    Field(
        ge=0,
        le=1,
        description="With `auto`: sentences go to the large model if their `quality` is below. Default: as the service "
        "is set up",
    ),
]


def note_engine(request: Request, done: Translations) -> Translations:
    """Has the access log say how many sentences a large model translated."""
    if done.llm_sentences:
        request.scope["state"]["llm_sentences"] = done.llm_sentences
    return done
