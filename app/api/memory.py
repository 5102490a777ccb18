"""/memory: the translation memory of the client's key."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from app import errors
from app.api.admission import AdmittedClient
from app.api.openapi_parts import ADMISSION_ERRORS, BODY_ERRORS, error_responses, form_with_file, schema_of
from app.api.schemas.memory import (
    ForgetQuery,
    Forgotten,
    MemoryFields,
    MemoryMatch,
    MemoryMatches,
    MemoryRequest,
    Remembered,
    SearchQuery,
)
from app.api.state import app_of, translator_of
from app.errors import InvalidFields, PairNotServed, TooMuchText
from app.formats.document import UnreadableDocument
from app.formats.memory_files import TMX, read_pairs, write_tmx
from app.http.download_headers import download_headers
from app.http.forms import JSON, MULTIPART, read_upload
from app.http.json_body import read_json
from app.http.problems import validated
from app.runtime.rate_limits import Client
from app.storage.protocols import Scope
from app.storage.translation_memory import TranslationMemory
from app.text.memory_index import MIN_SIMILARITY
from model import __version__

router = APIRouter(tags=["translation memory"])
_ERRORS = (*ADMISSION_ERRORS, errors.NoTranslationMemory, PairNotServed, errors.Unavailable, errors.StoreUnavailable)
_FORM = {
    "schema": form_with_file(
        MemoryFields.model_json_schema(),
        "A TMX file, whose name ends in `.tmx`; or lines of a text, a tab and its translation, in UTF-8",
    ),
    "example": {"file": "Open\tOuvrir", "source": "en", "target": "fr"},
}
_EXAMPLES = {
    "pair": {
        "summary": "A pair",
        "value": {
            "source": "en",
            "target": "fr",
            "pairs": [{"text": "Open the file", "translation": "Ouvrir le fichier"}],
        },
    }
}
_BODY = {
    "required": True,
    "content": {JSON: {"schema": schema_of(MemoryRequest), "examples": _EXAMPLES}, MULTIPART: _FORM},
}


async def _translation_memory(request: Request) -> TranslationMemory:
    """Raises NoTranslationMemory."""
    memory = app_of(request).translation_memory
    if memory is None:
        raise errors.NoTranslationMemory(errors.NoTranslationMemory.example)
    return memory


MemoryState = Annotated[TranslationMemory, Depends(_translation_memory)]


@router.put(
    "/memory",
    summary="Remember translations",
    response_model=Remembered,
    openapi_extra={"requestBody": _BODY},
    responses=error_responses(*_ERRORS, *BODY_ERRORS, errors.Overloaded),
)
async def remember(request: Request, client: AdmittedClient, memory: MemoryState) -> Response:
    """Remember pairs of a text and its translation, as JSON or as a file. They replace pairs with the same text.

    The response comes when they are on the disk. From then on, /translate answers equal texts and sentences with them.
    Texts are equal if they differ only in white space, in numbers and in placeholders, whose new values then take the
    place of the old ones in the translation.
    """
    if request.headers.get("content-type", "").lower().startswith(MULTIPART):
        file, form = await read_upload(request)
        fields: MemoryFields = validated(MemoryFields, form.by_name())
        scope = _scope(request, client, fields.source, fields.target)
        try:
            turn = memory.turns(client.name).long
            pairs = await turn.run(read_pairs, file.name, file.content, scope.source, scope.target, memory.limits.pairs)
        except UnreadableDocument as error:
            raise InvalidFields.at("#/file", str(error)) from None
        if not pairs:
            raise InvalidFields.at("#/file", "The file has no pairs")
    else:
        body = validated(MemoryRequest, await read_json(request))
        scope = _scope(request, client, body.source, body.target)
        pairs = [(pair.text, pair.translation) for pair in body.pairs]
    version = await memory.put(scope, pairs, client.name, translator_of(request).check_length)
    return JSONResponse({"pairs": len(pairs), "memory_version": version})


@router.get(
    "/memory/search",
    summary="Search the translation memory",
    responses=error_responses(*_ERRORS, errors.InvalidFields, TooMuchText),
)
async def search(
    request: Request, client: AdmittedClient, memory: MemoryState, query: Annotated[SearchQuery, Query()]
) -> MemoryMatches:
    """Return the pairs whose texts are the most similar to a text, with percentages."""
    translator_of(request).check_length(len(query.text))
    found = await memory.snapshot(_scope(request, client, query.source, query.target), with_similar=True)
    turn = memory.turns(client.name).short
    matches = await turn.run(found.fuzzy, query.text, query.limit, MIN_SIMILARITY)
    exact = await turn.run(found.exact, query.text)
    return MemoryMatches(
        exact=exact,
        matches=[
            MemoryMatch(text=match.pair.source, translation=match.pair.target, percentage=match.percentage)
            for match in matches
        ],
        memory_version=found.version,
    )


@router.delete(
    "/memory",
    summary="Forget translations",
    responses=error_responses(*_ERRORS, errors.InvalidFields),
)
async def forget(
    request: Request, client: AdmittedClient, memory: MemoryState, query: Annotated[ForgetQuery, Query()]
) -> Forgotten:
    """Erase a pair, or all pairs of a direction, from the memory and from its files."""
    scope = _scope(request, client, query.source, query.target)
    number, version = await (memory.clear(scope) if query.text is None else memory.remove(scope, query.text))
    return Forgotten(pairs=number, memory_version=version)


@router.get(
    "/memory",
    summary="Export the translation memory",
    response_class=Response,
    responses={
        200: {
            "description": "All pairs of the direction, as TMX 1.4",
            "content": {TMX: {"schema": {"type": "string", "format": "binary"}}},
        },
        **error_responses(*_ERRORS, errors.InvalidFields),
    },
)
async def export(
    request: Request, client: AdmittedClient, memory: MemoryState, query: Annotated[MemoryFields, Query()]
) -> Response:
    """Download all pairs of a direction, with the time and the key's name of each."""
    scope = _scope(request, client, query.source, query.target)
    found = await memory.snapshot(scope)
    turn = memory.turns(client.name).long
    content = await turn.run(write_tmx, found.pairs(), scope.source, scope.target, __version__)
    headers = download_headers(f"memory.{scope.source}-{scope.target}.tmx")
    return Response(content, media_type=TMX, headers=headers)


def _scope(request: Request, client: Client, source: str, target: str) -> Scope:
    """The client's memory of a direction that is served. Raises PairNotServed."""
    catalogue = translator_of(request).catalogue
    source, target = catalogue.codes(source, target)
    catalogue.route(source, target)
    return Scope(client.name, source, target)
