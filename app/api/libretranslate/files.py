"""LibreTranslate's routes for files."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from app import formats
from app.api.admission import admit, admit_early, check_load, key_of
from app.api.dialects.dialect import STATUSES, json_errors, served_pair
from app.api.dialects.router import form_schema, query_parameters
from app.api.libretranslate.rows import LibreRequest
from app.api.libretranslate.schemas import LibreError, LibreFile
from app.api.memory_option import memory_option, note_engine
from app.api.openapi_parts import (
    ADMISSION_ERRORS,
    FORM_ERRORS,
    TRANSLATION_ERRORS,
    error_responses,
    file_response,
    form_with_file,
)
from app.api.schemas.fields import Engine, Language
from app.api.state import app_of, translator_of
from app.errors import NotAuthorised, StoreUnavailable, TooManyCharacters, TooManyRequests, TooMuchText
from app.http.auth import NO_KEY
from app.http.download_headers import download_headers
from app.http.forms import JSON, MULTIPART, Upload, read_upload
from app.http.json_body import while_connected
from app.http.problems import Problem
from app.runtime.rate_limits import Client
from app.storage.downloads import Download
from app.translation.documents import document_file, in_time, open_document, translate_document
from app.translation.types import Options

router = APIRouter()
_WORDINGS = {
    TooMuchText.slug: "Invalid request: request exceeds text limit: {}",
    TooManyRequests.slug: "Slowdown: {}",
    TooManyCharacters.slug: "Slowdown: {}",
    NotAuthorised.slug: "Invalid API key",
}
"""LibreTranslate's messages, which programs compare, around ours."""
_NO_KEY = "Please contact the server operator to obtain an API key"
"""Dialect compares all of it; LibreTranslate has said "to get" since 2022."""


def _error(message: str, status: int, problem: Problem) -> dict[str, str]:
    wording = _NO_KEY if message == NO_KEY else _WORDINGS.get(problem.type.rpartition(":")[2], "{}")
    return {"error": wording.format(message)}


render_problem = json_errors(_error, {**STATUSES, 401: 403, 413: 400})
"""LibreTranslate has no 503 and 504, but proxies between it and its clients do."""


class FileToTranslate(LibreRequest):
    """Fields sent along with a file."""

    source: Language = Field(description="The language of the document, or `auto`")
    target: Language = Field(description="The language to translate into")
    engine: Engine = None


_ERROR = {"$ref": "#/components/schemas/LibreError"}
_NO_SUCH_FILE = "There is no such file, or it has expired."
_FORM = {
    "schema": form_with_file(form_schema(FileToTranslate)),
    "example": {"file": "Hello.", "source": "en", "target": "fr"},
}
_TRANSLATE_FILE: dict[str, Any] = {
    "openapi_extra": {
        "requestBody": {"required": True, "content": {MULTIPART: _FORM}},
        "parameters": query_parameters(FileToTranslate),
    },
    "responses": error_responses(
        *ADMISSION_ERRORS,
        *FORM_ERRORS,
        *TRANSLATION_ERRORS,
        StoreUnavailable,
        renderer=render_problem,
        schema=_ERROR,
    ),
}
_DOWNLOAD: dict[str, Any] = {
    "responses": {
        200: file_response(
            "The file", **{"Content-Disposition": {"description": "The file's name", "schema": {"type": "string"}}}
        ),
        404: {
            "description": "No such file, or it has expired",
            "model": LibreError,
            "content": {JSON: {"example": {"error": _NO_SUCH_FILE}}},
        },
        **{
            status: {**response, "model": LibreError}
            for status, response in error_responses(StoreUnavailable, renderer=render_problem, schema=_ERROR).items()
        },
    }
}


@router.post("/translate_file", summary="Translate a document", response_model=LibreFile, **_TRANSLATE_FILE)
async def libre_translate_file(request: Request) -> Response:
    """Translate a document and return a URL from which the translation can be downloaded for ten minutes."""
    check_load(request)
    early = await admit_early(request)
    file, fields = await read_upload(request)
    client = early or await admit(request, key_of(request, fields))
    body = FileToTranslate.read(fields)
    source, target = served_pair(translator_of(request).catalogue, body.source, body.target)
    body = body.model_copy(update={"source": source, "target": target})
    downloads = app_of(request).downloads
    downloads.check()
    work = in_time(app_of(request).settings, _translated_file(request, client, file, body))
    translated = await while_connected(request, work)
    name = await downloads.add(translated)
    if name is None:
        raise TooMuchText("The translated file is too large to be kept for download.")
    # Below the URL of this request. `url_for` fails on a wrong Host header.
    path = request.scope["path"].removesuffix("translate_file")
    host = request.headers.get("host", "localhost")
    return JSONResponse({"translatedFileUrl": f"{request.scope['scheme']}://{host}{path}download_file/{name}"})


async def _translated_file(request: Request, client: Client, file: Upload, body: FileToTranslate) -> Download:
    app, owner, charset = app_of(request), client.identity, formats.FormatOptions(charset=file.charset)
    given = document_file(
        app.documents, owner, file.name, file.content, body.target, app.settings, body.source, charset
    )
    document = await open_document(given, app.settings)
    content = file.content
    if body.source != body.target:
        await client.charge(document.characters)
        memory = await memory_option(request, body.source, body.target)
        options = Options(body.source, body.target, client=client.scheduled_as, memory=memory, engine=body.engine)
        content, done = await translate_document(translator_of(request), document, options)
        note_engine(request, done)
    return Download(formats.translated_name(file.name, body.target), content, document.media_type)


@router.get("/download_file/{name}", summary="Download a translated document", response_class=Response, **_DOWNLOAD)
async def download_file(
    name: Annotated[str, Path(description="The last part of the URL that /translate_file returned")], request: Request
) -> Response:
    """Download a file that /translate_file made. Anyone who knows the name can download it."""
    file = await app_of(request).downloads.find(name)
    if file is None:
        raise HTTPException(404, _NO_SUCH_FILE)
    return Response(file.content, media_type=file.media_type, headers=download_headers(file.name))
