"""The translation memory that a request may use: its client's, as of now; and what the log is told of the engine."""

from __future__ import annotations

from typing import Literal

from fastapi import Request

from app.api.state import app_of, translator_of
from app.errors import NoTranslationMemory
from app.server.state import state_of
from app.translation.memory import MemoryOption
from app.translation.types import Translations


async def memory_option(
    request: Request,
    source: str,
    target: str,
    wanted: Literal["exact", "off", "fuzzy", "repair"] | None = None,
    repair_tolerance: float = 0.0,
) -> MemoryOption | None:
    """The memory for `Options`; None if the request wants none, or the service has none and nothing was `wanted`.

    `source` may be AUTO. Raises NoTranslationMemory and Unavailable.
    """
    memory = app_of(request).translation_memory
    if wanted == "off" or (memory is None and wanted is None):
        return None
    if memory is None:
        raise NoTranslationMemory(NoTranslationMemory.example)
    owner, mode = state_of(request).admitted.name, wanted or "exact"
    source, target = translator_of(request).catalogue.codes(source, target)
    snapshots = await memory.snapshots(owner, source, target, mode != "exact")
    return MemoryOption(snapshots, mode, repair_tolerance, memory.turns(owner))


def note_engine(request: Request, done: Translations) -> Translations:
    """Has the access log say how many sentences a large model translated."""
    if done.llm_sentences:
        state_of(request).llm_sentences = done.llm_sentences
    return done
