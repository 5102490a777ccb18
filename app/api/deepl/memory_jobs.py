"""DeepL's jobs that import and export translation memories as TMX.

A job is a download: an import's says what is expected, and then what came of it; an export's is the file, so that it is
complete at once. Whoever knows a job's id, of 128 random bits, may send or fetch its file without a key.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from msgspec import Struct, json
from pydantic import Field

from app.api.deepl.translation_memories import MemoryId, find_memory, memory_id
from app.api.deepl.wire_format import Body, Caller, error_responses, invalid_field, not_found, request_body, validated
from app.api.openapi_parts import BODY_ERRORS
from app.api.state import app_of, translator_of
from app.errors import (
    InvalidFields,
    NoTranslationMemory,
    PairNotServed,
    ServiceError,
    StoreUnavailable,
    TooMuchText,
    Unavailable,
)
from app.formats.document import UnreadableDocument
from app.formats.memory_files import TMX, read_tmx, write_tmx
from app.http.forms import read_fields
from app.http.json_body import read_body, too_large
from app.server.state import state_of
from app.storage.downloads import LIFETIME_S, Download
from app.storage.protocols import Scope
from model import __version__

router = APIRouter()
JobId = Annotated[str, Path(description="The job's id", examples=["0123456789abcdef0123456789abcdef.legal.tmx"])]
_IMPORT = "application/x-import+json"
"""The media type of an import's download."""
_ERRORS = (StoreUnavailable, Unavailable)


class SourceFile(Body):
    """The file to be sent."""

    file_name: str = Field(min_length=1, max_length=255, description="Its name", examples=["legal.tmx"])
    content_length: int = Field(ge=1, description="Its bytes", examples=[1024])
    content_type: str = Field("application/xml", max_length=100, description="Has no effect: it is read as TMX")


class ImportParameters(Body):
    """How to import a file."""

    display_name: str | None = Field(
        None, max_length=1024, description="Has no effect: memories have their direction's name"
    )


class ImportRequest(Body):
    """A file of translations to import."""

    source_file: SourceFile
    parameters: ImportParameters = ImportParameters(display_name=None)


class _Import(Struct):
    """What an import's download contains."""

    owner: str
    job: dict[str, Any]
    """As its state is shown."""


@router.post(
    "/v3/translation_memories/import",
    summary="Import translations",
    status_code=202,
    openapi_extra=request_body(
        ImportRequest, {"source_file": {"file_name": "legal.tmx", "content_length": 1024}, "parameters": {}}
    ),
    responses=error_responses(*BODY_ERRORS, *_ERRORS),
)
async def create_import(request: Request, caller: Caller) -> dict[str, Any]:
    """Start an import. Its pairs go to the memories of their directions, which it makes where there are none."""
    body = validated(ImportRequest, await read_fields(request))
    settings = app_of(request).settings
    file = body.source_file
    if app_of(request).translation_memory is None:
        raise InvalidFields(NoTranslationMemory.example)
    if file.content_length > settings.max_file_bytes:
        raise too_large("file", settings.max_file_bytes)
    job: dict[str, Any] = {
        "product": "translation_memory",
        "operation": "import",
        "parameters": {"display_name": body.parameters.display_name or file.file_name},
        "source_file": {"content_type": file.content_type, "content_length": file.content_length},
        "results": [{"status": "awaiting_input", "status_metadata": {"required_action": "Waiting for upload"}}],
    }
    id = await keep(request, Download(file.file_name, json.encode(_Import(caller.name, job)), _IMPORT))
    url = _url(request, f"/deepl/v3/translation_memories/jobs/{id}/file")
    until = datetime.now(UTC) + timedelta(seconds=LIFETIME_S)
    return {"job_id": id, "upload_url": url, "expires_at": until.isoformat(), **job}


@router.put("/v3/translation_memories/jobs/{job_id}/file", include_in_schema=False)
async def send_file(job_id: JobId, request: Request) -> Response:
    """Import the pairs of a TMX file. What came of it, the job tells."""
    file = await _find(request, job_id)
    if file.media_type != _IMPORT:
        raise not_found("job")
    found = json.decode(file.content, type=_Import)
    length: int = found.job["source_file"]["content_length"]
    state_of(request).is_known = True  # the job's id is as good as a key
    content = await read_body(request, length)
    if len(content) != length:
        raise invalid_field("file", f"The file has {len(content)} bytes instead of {length}.")
    try:
        result = await _import(request, found.owner, content)
    except (UnreadableDocument, PairNotServed, InvalidFields, TooMuchText) as error:
        message = error.detail if isinstance(error, ServiceError) else str(error)
        result = {"status": "failed", "error": {"message": message}}
    found.job["results"] = [result]
    await app_of(request).downloads.change(job_id, json.encode(found))
    return Response()


async def _import(request: Request, owner: str, content: bytes) -> dict[str, Any]:
    """Keeps the pairs of the directions that are served, and returns the job's result. Raises UnreadableDocument,
    PairNotServed if none is, and what the memory raises."""
    translator, memory = translator_of(request), app_of(request).translation_memory
    assert memory
    found = await memory.turns(owner).long.run(read_tmx, content, memory.limits.pairs)
    ids, skipped, refusal = [], 0, None
    for direction, pairs in found.items():
        source, target = translator.catalogue.codes(*direction)
        try:
            translator.catalogue.route(source, target)
        except PairNotServed as error:
            skipped, refusal = skipped + len(pairs), error
            continue
        await memory.put(Scope(owner, source, target), pairs, owner, translator.check_length)
        ids.append(memory_id(owner, source, target))
    if refusal and not ids:
        raise refusal
    return {"status": "completed", "translation_memory_id": ids[0], "skipped_segment_count": skipped}


@router.post(
    "/v3/translation_memories/{memory_id:uuid}/export",
    summary="Export a translation memory",
    status_code=202,
    responses=error_responses(*_ERRORS, TooMuchText, missing=["translation memory"]),
)
async def create_export(memory_id: MemoryId, request: Request, caller: Caller) -> dict[str, Any]:
    """Write the pairs of a memory to a TMX file, which the job then has for ten minutes."""
    memory, found = await find_memory(request, caller, memory_id)
    of = found.memory
    content = await memory.turns(caller.name).long.run(write_tmx, found.pairs(), of.source, of.target, __version__)
    id = await keep(request, Download(f"{memory_id}.tmx", content, TMX))
    return _shown_export(request, id)


@router.get(
    "/v3/translation_memories/jobs/{job_id}",
    summary="Get the state of an import or export",
    responses=error_responses(*_ERRORS, missing=["job"]),
)
async def job_state(job_id: JobId, request: Request, caller: Caller) -> dict[str, Any]:
    """Return the state of a job: the `status` of its one result is `awaiting_input`, `completed` or `failed`. It is
    kept for ten minutes."""
    file = await _find(request, job_id)
    if file.media_type == TMX:
        return _shown_export(request, job_id)
    found = json.decode(file.content, type=_Import)
    if found.owner != caller.name:
        raise not_found("job")
    return {"job_id": job_id, **found.job}


def _shown_export(request: Request, id: str) -> dict[str, Any]:
    return {
        "job_id": id,
        "product": "translation_memory",
        "operation": "export",
        "parameters": {"translation_memory_id": id.split(".")[1]},
        "results": [{"status": "completed", "download_url": _url(request, f"/libretranslate/download_file/{id}")}],
    }


async def _find(request: Request, job_id: str) -> Download:
    """Raises HTTPException and StoreUnavailable."""
    file = await app_of(request).downloads.find(job_id)
    if file is None or file.media_type not in (TMX, _IMPORT):
        raise not_found("job")
    return file


async def keep(request: Request, file: Download) -> str:
    """Raises TooMuchText and StoreUnavailable."""
    kept = await app_of(request).downloads.add(file)
    if kept is None:
        raise TooMuchText("The file is too large to be kept for download.")
    return kept


def _url(request: Request, path: str) -> str:
    """The URL of a path of this service. Not by `url_for`, which fails on a wrong Host header."""
    before = request.scope.get("root_path", "")
    return f"{request.scope['scheme']}://{request.headers.get('host', 'localhost')}{before}{path}"
