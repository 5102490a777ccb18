"""The translation memory that a request may use: its client's, as of now."""

from __future__ import annotations

from typing import Literal

from fastapi import Request

from app.errors import NoTranslationMemory
from app.http.auth import Client
from app.storage.translation_memory import TranslationMemory
from app.translation.memory import MemoryOption
from app.translation.translator import Translator


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
    state = request.scope["state"]
    memory: TranslationMemory | None = state["translation_memory"]
    if memory is None:
        if wanted in (None, "off"):
            return None
        raise NoTranslationMemory(NoTranslationMemory.example)
    if wanted == "off":
        return None
    translator: Translator = state["translator"]
    client: Client = state["client"]
    mode = wanted or "exact"
    snapshots = await memory.snapshots(client.name, *translator.catalogue.codes(source, target), mode != "exact")
    return MemoryOption(snapshots, mode, repair_tolerance, memory.turns(client.name))
