"""DeepL's /v2/document: clients upload a document, poll its status, and download the translation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Struct
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from app import errors, formats
from app.api.deepl.text import TranslationOptions
from app.api.deepl.translation_memories import memory_of
from app.api.deepl.wire_format import (
    Body,
    Caller,
    dictionaries_of,
    error_responses,
    invalid_field,
    not_found,
    pair_of,
    request_body,
    validated,
)
from app.api.openapi_parts import BODY_ERRORS, FORM_ERRORS, FORMAT_OF_NAME, file_response, form_with_file, schema_of
from app.api.state import app_of, translator_of
from app.documents.processes import DocumentProcesses
from app.errors import InvalidFields, StoreUnavailable, TooManyCharacters
from app.formats.sniffing import suffix_of
from app.http.auth import AccessControl
from app.http.download_headers import download_headers
from app.http.forms import MULTIPART, Upload, read_fields, read_upload
from app.http.json_body import while_connected
from app.runtime.event_loop import TERM_SIZE, run
from app.runtime.rate_limits import Account, Client
from app.services.reload import Deployments
from app.settings import Settings
from app.storage.background_jobs import BackgroundJobs, Job, JobResult
from app.storage.translation_memory import TranslationMemory
from app.text.glossary import Glossary, GlossaryChain
from app.translation.documents import document_file, document_language, open_document, translate_in_batches
from app.translation.formality import Formality
from app.translation.memory import MemoryOption
from app.translation.types import AUTO, EngineOption, Options

router = APIRouter()
DocumentId = Annotated[str, Path(description="The document's id", examples=["0123456789ABCDEF0123456789ABCDEF"])]
_NOT_READY = "The document is not translated yet."
STATUS_WAIT_S = 2.0
"""How long a status request waits for the document to be done. If it is not, clients ask again only after five
seconds."""


class Terms(Struct):
    """A dictionary of a glossary, as it was when the document was uploaded."""

    language: str
    """Of the source."""
    terms: dict[str, str]


class DocumentTask(Struct):
    """A document to translate, which any instance may do."""

    name: str
    content: bytes
    source: str
    target: str
    glossaries: list[Terms]
    account: Account
    """Where its characters are charged."""
    memory: str | None = None
    """The key whose translation memory is used, if one is."""
    charset: str = ""
    """The encoding that the upload declares."""
    engine: EngineOption | None = None
    formality: Formality | None = None


class DocumentFacts(Struct):
    """What is known about a translated document besides its content."""

    name: str
    media_type: str
    characters: int


class DocumentRequest(TranslationOptions):
    """Fields sent along with the file."""

    filename: str | None = Field(None, max_length=255, description="The file's name, if the upload has none")
    output_format: str | None = Field(None, max_length=20, description="The file's own format; any other is refused")


class KeyRequest(Body):
    """Proof that the client may access the document."""

    document_key: str = Field(min_length=1, description="The key that was returned with the document's id")


class DocumentHandle(BaseModel):
    """The document's id, and the key with which its status and translation can be fetched."""

    document_id: str = Field(description="Identifies the document", examples=["0123456789ABCDEF0123456789ABCDEF"])
    document_key: str = Field(
        description="Proves that the client may fetch the document", examples=["0123456789ABCDEF" * 4]
    )


class DocumentStatus(BaseModel):
    """The status of a document."""

    document_id: str = Field(description="Identifies the document", examples=["0123456789ABCDEF0123456789ABCDEF"])
    status: Literal["queued", "translating", "done", "error"] = Field(
        description="`done`: the translation can be fetched"
    )
    billed_characters: int | None = Field(default=None, examples=[1337], description="Present when it is done")
    error_message: str | None = Field(default=None, description="Why it could not be translated")


_FORM = {
    "schema": form_with_file(schema_of(DocumentRequest), f"{FORMAT_OF_NAME}. Without a suffix, its first bytes decide"),
    "example": {"file": "Hello.", "target_lang": "FR", "source_lang": "EN"},
}


@router.post("/v2/document/", include_in_schema=False)  # deepl-java sends streams there
@router.post(
    "/v2/document",
    summary="Upload a document for translation",
    response_model=DocumentHandle,
    openapi_extra={"requestBody": {"required": True, "content": {MULTIPART: _FORM}}},
    responses=error_responses(
        *FORM_ERRORS,
        errors.PairNotServed,
        errors.TooManyCharacters,
        errors.Overloaded,
        StoreUnavailable,
        missing=["glossary"],
    ),
)
async def upload(request: Request, caller: Caller) -> Response:
    """Start translating a document. The service keeps it for at most an hour, until it is downloaded."""
    file, fields = await read_upload(request)
    body = validated(DocumentRequest, fields)
    body.check()
    name = _file_name(file, body)
    translator = translator_of(request)
    source, target = pair_of(translator.catalogue, body.source_lang, body.target_lang)
    if source is not None and target not in translator.catalogue.targets(source):
        translator.catalogue.route(source, target)
    dictionaries = await dictionaries_of(app_of(request).glossaries, caller.name, body.glossaries, source, target)
    if caller.character_limit is not None and await caller.characters() >= caller.character_limit:
        raise TooManyCharacters("The character limit is used up.")
    glossaries = [Terms(pair[0], dict(stored.dictionaries[pair])) for stored, pair in dictionaries]
    await memory_of(request, caller.name, body.translation_memory_id, source or AUTO, target)  # refused before the work
    memory = None if body.translation_memory_id is None else caller.name
    owner, given = caller.account, source or AUTO
    task = DocumentTask(
        name, file.content, given, target, glossaries, owner, memory, file.charset, body.engine, body.address
    )
    job = await app_of(request).background_jobs.start(caller.name, await asyncio.to_thread(_encode, task))
    return JSONResponse({"document_id": job.id, "document_key": job.key})


async def translate_task(
    deployments: Deployments,
    documents: DocumentProcesses,
    settings: Settings,
    access_control: AccessControl,
    translation_memory: TranslationMemory | None,
    encoded: bytes,
    attempt: int,
) -> JobResult:
    """Translates an encoded DocumentTask. Raises ServiceError."""
    task = await asyncio.to_thread(_decode_task, encoded)
    owner = task.account.identity
    file = document_file(
        documents, owner, task.name, task.content, task.target, settings, task.source, {"charset": task.charset}
    )
    document = await open_document(file, settings)
    if attempt == 1:  # another instance that has died has charged them
        await access_control.client_of(task.account).charge(document.characters)
    glossary = await run(TERM_SIZE * sum(len(each.terms) for each in task.glossaries), _merged, task.glossaries)
    memory = None
    if translation_memory and task.memory is not None:
        snapshots = await translation_memory.snapshots(task.memory, task.source, task.target)
        memory = MemoryOption(snapshots, turns=translation_memory.turns(task.memory))
    # The deployment that accepted the request may be retired before the job starts.
    with deployments.current as deployment:
        source, target = task.source, task.target
        if source == AUTO:
            detected = await asyncio.to_thread(document_language, deployment.translator, document, target)
            source = detected or AUTO
        if source == target:
            raise InvalidFields("Source and target language are equal.")
        options = Options(source, target, glossary=glossary, client=owner, memory=memory, engine=task.engine)
        options = msgspec.structs.replace(options, formality=task.formality)
        content = await translate_in_batches(deployment.translator, document, options)
    name = formats.translated_name(task.name, task.target)
    return JobResult(_encode(DocumentFacts(name, document.media_type, document.characters)), content)


def _merged(glossaries: Sequence[Terms]) -> Glossary | None:
    found = [Glossary(each.terms, each.language) for each in glossaries]
    return GlossaryChain(found) if len(found) > 1 else found[0] if found else None


def _file_name(file: Upload, body: DocumentRequest) -> str:
    """Returns a file name that shows the format. Raises InvalidFields."""
    name = next((name for name in (file.name, body.filename or "") if _suffix(name)), "")
    name = name or PurePath(file.name).stem + suffix_of(file.content)
    if _suffix(name) not in formats.MEDIA_TYPES:
        raise invalid_field("file", f"The file extension must be one of {', '.join(formats.MEDIA_TYPES)}.")
    suffix = f".{body.output_format.lower().lstrip('.')}" if body.output_format else _suffix(name)
    written = formats.written_suffix(_suffix(name))
    if formats.MEDIA_TYPES.get(formats.written_suffix(suffix)) != formats.MEDIA_TYPES[written]:
        raise invalid_field("output_format", f"A document of this format is written as {written[1:]}.")
    return name


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()


@router.post(
    "/v2/document/{document_id}",
    summary="Get the status of a document",
    response_model=DocumentStatus,
    openapi_extra=request_body(KeyRequest, {"document_key": "0123456789ABCDEF" * 4}),
    responses=error_responses(*BODY_ERRORS, StoreUnavailable, missing=["document"]),
)
async def status(document_id: DocumentId, request: Request, caller: Caller) -> Response:
    """Return the status of a document. Documents not downloaded within an hour are deleted; without a store, a restart
    deletes all of them."""
    found = await _find_job(document_id, request, caller)
    job = await while_connected(request, app_of(request).background_jobs.wait(found, STATUS_WAIT_S))
    if job is None:
        raise not_found("document")
    status_fields: dict[str, Any] = {"document_id": job.id, "status": job.status}
    if job.facts:
        status_fields["billed_characters"] = _decode_facts(job.facts).characters
    if job.error:
        status_fields["error_message"] = job.error
    return JSONResponse(status_fields)


@router.post(
    "/v2/document/{document_id}/result",
    summary="Download a document",
    response_class=Response,
    openapi_extra=request_body(KeyRequest, {"document_key": "0123456789ABCDEF" * 4}),
    responses={
        200: file_response("The translated file"),
        **error_responses(*BODY_ERRORS, StoreUnavailable, missing=["document"], not_ready=_NOT_READY),
    },
)
async def result(document_id: DocumentId, request: Request, caller: Caller) -> Response:
    """Return the translated document, and delete it."""
    job = await _find_job(document_id, request, caller)
    if job.error:
        raise InvalidFields(f"The document cannot be translated: {job.error}")
    if job.facts is None:
        raise HTTPException(503, _NOT_READY)
    background_jobs = app_of(request).background_jobs
    content, facts = await background_jobs.result(job), _decode_facts(job.facts)
    if content is None:
        raise not_found("document")
    return Response(
        content,
        media_type=facts.media_type,
        headers=download_headers(facts.name),
        background=BackgroundTask(_forget, background_jobs, job),  # once it has been sent
    )


async def _forget(background_jobs: BackgroundJobs, job: Job) -> None:
    with suppress(StoreUnavailable):  # then it expires
        await background_jobs.forget(job)


async def _find_job(document_id: str, request: Request, caller: Client) -> Job:
    """Raises HTTPException and StoreUnavailable, and what reading a body raises."""
    key = validated(KeyRequest, await read_fields(request)).document_key
    job = await app_of(request).background_jobs.find(document_id, key, caller.name)
    if job is None:
        raise not_found("document")
    return job


_encode = msgspec.msgpack.Encoder().encode
_decode_task = msgspec.msgpack.Decoder(DocumentTask).decode
_decode_facts = msgspec.msgpack.Decoder(DocumentFacts).decode
