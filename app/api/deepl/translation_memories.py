"""DeepL's /v3/translation_memories: the client's translation memory, as one memory for each direction."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import NAMESPACE_URL, uuid5

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from app.api.deepl.wire_format import Caller, error_responses, invalid_field
from app.errors import InvalidFields, Unavailable
from app.services.translation_memory import TranslationMemory
from app.text.memory_index import MemorySnapshot
from app.translation.memory import MemoryOption

router = APIRouter()
MAX_PAGE_SIZE = 25


class DeepLMemory(BaseModel):
    """A translation memory."""

    translation_memory_id: str = Field(
        examples=["9d1f7f5e-4c0b-5d06-9d9e-0d9a6c7f0a31"], description="For `translation_memory_id` of a request"
    )
    name: str = Field(examples=["en-fr"], description="The direction")
    source_language: str = Field(examples=["en"], description="The language of its texts")
    target_languages: list[str] = Field(examples=[["fr"]], description="One language")
    segment_count: int = Field(examples=[120], description="Number of pairs")
    creation_time: str = Field(examples=["2026-01-01T12:00:00+00:00"], description="When its oldest pair was sent")
    updated_time: str = Field(examples=["2026-01-02T12:00:00+00:00"], description="When its newest pair was sent")


class DeepLMemories(BaseModel):
    """A page of translation memories."""

    translation_memories: list[DeepLMemory] = Field(description="By direction")
    total_count: int = Field(examples=[1], description="Number of memories on all pages")


@router.get(
    "/v3/translation_memories",
    summary="List translation memories",
    response_model=DeepLMemories,
    responses=error_responses(InvalidFields, Unavailable),
)
async def list_memories(
    request: Request,
    caller: Caller,
    page: Annotated[int, Query(ge=0, description="From 0", examples=[0])] = 0,
    page_size: Annotated[
        int, Query(ge=1, le=MAX_PAGE_SIZE, description="Memories on a page", examples=[25])
    ] = MAX_PAGE_SIZE,
) -> JSONResponse:
    """List the memories of the client's key that have a pair; none if the service keeps none."""
    memory: TranslationMemory | None = request.state.translation_memory
    if memory is None:
        return JSONResponse({"translation_memories": [], "total_count": 0})
    found = sorted(await memory.directions(caller.name), key=_direction)
    shown = found[page * page_size : (page + 1) * page_size]
    entries = [await memory.turns(caller.name).long.run(_entry, caller.name, each) for each in shown]
    return JSONResponse({"translation_memories": entries, "total_count": len(found)})


async def memory_of(request: Request, owner: str, id: str | None, source: str, target: str) -> MemoryOption | None:
    """The owner's memory with this id, which must be of this direction; None without an id. `source` may be AUTO, which
    no memory has. Raises InvalidFields and Unavailable."""
    if id is None:
        return None
    memory: TranslationMemory | None = request.state.translation_memory
    if memory is None or id != memory_id(owner, source, target):
        raise invalid_field("translation_memory_id", f"No translation memory of {source}-{target} has this id.")
    return MemoryOption(await memory.snapshots(owner, source, target), turns=memory.turns(owner))


def memory_id(owner: str, source: str, target: str) -> str:
    """The same for ever, as long as the owner has the same name."""
    return str(uuid5(NAMESPACE_URL, f"urn:interlinear:memory:{owner}/{source}/{target}"))


def _direction(snapshot: MemorySnapshot) -> tuple[str, str]:
    return snapshot.memory.source, snapshot.memory.target


def _entry(owner: str, snapshot: MemorySnapshot) -> dict[str, object]:
    source, target = _direction(snapshot)
    times = [pair.created for pair in snapshot.pairs()]
    return {
        "translation_memory_id": memory_id(owner, source, target),
        "name": f"{source}-{target}",
        "source_language": source,
        "target_languages": [target],
        "segment_count": len(times),
        "creation_time": datetime.fromtimestamp(min(times, default=0), UTC).isoformat(),
        "updated_time": datetime.fromtimestamp(max(times, default=0), UTC).isoformat(),
    }
