"""DeepL's /v3/translation_memories: the client's translation memory, as one memory for each direction."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any
from uuid import NAMESPACE_URL, UUID, uuid5

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from app.api.deepl.wire_format import Caller, error_responses, invalid_field, not_found
from app.api.state import app_of
from app.errors import InvalidFields, Unavailable
from app.runtime.rate_limits import Client
from app.storage.protocols import Scope
from app.storage.translation_memory import TranslationMemory
from app.text.memory_index import MemorySnapshot, Pair
from app.text.memory_slots import text_id
from app.translation.memory import MemoryOption

router = APIRouter()
MemoryId = Annotated[UUID, Path(description="The memory's id", examples=["9d1f7f5e-4c0b-5d06-9d9e-0d9a6c7f0a31"])]
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
    memory = app_of(request).translation_memory
    if memory is None:
        return JSONResponse({"translation_memories": [], "total_count": 0})
    found = sorted(await memory.directions(caller.name), key=_direction)
    shown = found[page * page_size : (page + 1) * page_size]
    entries = [await memory.turns(caller.name).long.run(_entry, caller.name, each) for each in shown]
    return JSONResponse({"translation_memories": entries, "total_count": len(found)})


@router.get(
    "/v3/translation_memories/{memory_id:uuid}",
    summary="Get a translation memory",
    response_model=DeepLMemory,
    responses=error_responses(Unavailable, missing=["translation memory"]),
)
async def get_memory(memory_id: MemoryId, request: Request, caller: Caller) -> JSONResponse:
    """Return a memory without its pairs."""
    memory, found = await find_memory(request, caller, memory_id)
    return JSONResponse(await memory.turns(caller.name).long.run(_entry, caller.name, found))


@router.delete(
    "/v3/translation_memories/{memory_id:uuid}",
    summary="Delete a translation memory",
    status_code=204,
    response_class=Response,
    responses=error_responses(Unavailable, missing=["translation memory"]),
)
async def delete_memory(memory_id: MemoryId, request: Request, caller: Caller) -> Response:
    """Erase all pairs of a memory."""
    memory, found = await find_memory(request, caller, memory_id)
    await memory.clear(Scope(caller.name, *_direction(found)))
    return Response(status_code=204)


@router.get(
    "/v3/translation_memories/{memory_id:uuid}/segments",
    summary="List the pairs of a translation memory",
    responses=error_responses(InvalidFields, Unavailable, missing=["translation memory"]),
)
async def segments(
    memory_id: MemoryId,
    request: Request,
    caller: Caller,
    page_size: Annotated[int, Query(ge=1, le=100, description="Pairs on a page", examples=[50])] = 50,
    page_cursor: Annotated[int, Query(ge=0, description="`next_page_cursor` of the page before", examples=[50])] = 0,
    filter_text: Annotated[
        str | SkipJsonSchema[None], Query(min_length=2, description="Only pairs that contain it", examples=["file"])
    ] = None,
    filter_case_sensitive: Annotated[bool, Query(description="Whether its case counts")] = False,
) -> dict[str, Any]:
    """List `segments`, each a text with one of `targets`, or those that contain a text; the last page has no
    `next_page_cursor`."""
    memory, found = await find_memory(request, caller, memory_id)

    def page() -> dict[str, Any]:
        fold = str if filter_case_sensitive else str.casefold
        wanted, target = fold(filter_text or ""), found.memory.target
        pairs = (each for each in found.pairs() if wanted in fold(each.source) or wanted in fold(each.target))
        shown = [_segment(each, target) for each in islice(pairs, page_cursor, page_cursor + page_size + 1)]
        more = {"next_page_cursor": str(page_cursor + page_size)} if len(shown) > page_size else {}
        return {"segments": shown[:page_size], "segment_count": found.memory.count, **more}

    return await memory.turns(caller.name).long.run(page)


async def find_memory(request: Request, caller: Client, id: UUID) -> tuple[TranslationMemory, MemorySnapshot]:
    """The caller's memory with this id. Raises HTTPException and Unavailable."""
    memory = app_of(request).translation_memory
    for found in await memory.directions(caller.name) if memory else []:
        if memory and memory_id(caller.name, *_direction(found)) == str(id):
            return memory, found
    raise not_found("translation memory")


async def memory_of(request: Request, owner: str, id: str | None, source: str, target: str) -> MemoryOption | None:
    """The owner's memory with this id, which must be of this direction; None without an id. `source` may be AUTO, which
    no memory has. Raises InvalidFields and Unavailable."""
    if id is None:
        return None
    memory = app_of(request).translation_memory
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


def _segment(pair: Pair, target: str) -> dict[str, object]:
    id, time = text_id(pair.source), datetime.fromtimestamp(pair.created, UTC).isoformat()
    translation = {"target_segment_id": f"{id}-{target}", "target_language": target, "target_text": pair.target}
    return {"source_segment_id": id, "source_text": pair.source, "creation_time": time, "targets": [translation]}
