"""DeepL's glossaries: /v2/glossaries have one language pair, /v3/glossaries any number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec import json

from app import errors
from app.api.deepl.schemas import (
    ChangeRequest,
    DictionaryInfo,
    DictionaryRequest,
    EntriesResponse,
    GlossaryInfo,
    GlossaryList,
    GlossaryRequest,
    MultilingualInfo,
    MultilingualList,
    MultilingualRequest,
    PairRequest,
    SupportedPairs,
    dictionary_entries,
    dictionary_info,
    glossary_info,
    multilingual_info,
)
from app.api.deepl.wire_format import Caller, error_responses, invalid_field, not_found, request_body, validated
from app.api.openapi_parts import BODY_ERRORS
from app.api.state import app_of, translator_of
from app.errors import StoreUnavailable
from app.http.forms import read_fields
from app.runtime.event_loop import run
from app.runtime.rate_limits import Client
from app.storage.glossary_store import LanguagePair, StoredGlossary, Terms
from app.text.glossary_files import write_tsv

router = APIRouter()
TSV = "text/tab-separated-values"
GlossaryId = Annotated[str, Path(description="The glossary's id", examples=["def3a26b-3e84-45b3-84ae-0c0aaf3525f7"])]
_WRITE_ERRORS = (*BODY_ERRORS, errors.Unavailable, StoreUnavailable)
_NO_GLOSSARY = ["glossary"]
_TERMS = {"source_lang": "en", "target_lang": "fr", "entries": "cat\tmatou\nhouse\tbaraque", "entries_format": "tsv"}
_CSV = {"source_lang": "en", "target_lang": "fr", "entries": "cat,matou,en,fr", "entries_format": "csv"}


# ---- Both versions


async def _find_glossary(request: Request, caller: Client, glossary_id: str) -> StoredGlossary:
    """Raises HTTPException and StoreUnavailable."""
    return _check_found(await app_of(request).glossaries.find(glossary_id, caller.name))


def _check_found(found: StoredGlossary | None) -> StoredGlossary:
    """Raises HTTPException."""
    if found is None:
        raise not_found("glossary")
    return found


def _size(dictionaries: Sequence[DictionaryRequest]) -> int:
    """What reading their entries counts on the event loop."""
    return sum(len(each.entries) for each in dictionaries)


async def _add(request: Request, caller: Client, name: str, bodies: Sequence[DictionaryRequest]) -> StoredGlossary:
    """Raises InvalidFields and Unavailable."""
    catalogue = translator_of(request).catalogue
    dictionaries = await run(_size(bodies), lambda: {each.pair: each.terms(catalogue) for each in bodies})
    if len(dictionaries) < len(bodies):
        raise invalid_field("dictionaries", "Two dictionaries have the same language pair.")
    new = StoredGlossary(name, caller.name, dictionaries)
    await app_of(request).glossaries.add(new)
    return new


# ---- Version 2


@router.get(
    "/v2/glossary-language-pairs",
    summary="List the language pairs that glossaries can have",
    responses=error_responses(),
    response_model=SupportedPairs,
)
async def language_pairs(request: Request, caller: Caller) -> Response:
    """List all pairs that are served, without variants: a glossary for en also serves en-US."""
    catalogue = translator_of(request).catalogue
    listed = [{"source_lang": source, "target_lang": target} for source, target in catalogue.language_pairs]
    # There may be 39,800 of them: the json module would take several times as long, and models of pydantic more.
    return Response(json.encode({"supported_languages": listed}), media_type="application/json")


@router.post(
    "/v2/glossaries",
    summary="Create a glossary",
    status_code=201,
    openapi_extra=request_body(GlossaryRequest, {"name": "Animals", **_TERMS}, {"name": "Cats", **_CSV}),
    responses=error_responses(*_WRITE_ERRORS),
)
async def create(request: Request, caller: Caller) -> GlossaryInfo:
    """Create a glossary, which only its owner can see and use."""
    body = validated(GlossaryRequest, await read_fields(request))
    return glossary_info(await _add(request, caller, body.name, [body]))


@router.get(
    "/v2/glossaries", summary="List glossaries with one language pair", responses=error_responses(StoreUnavailable)
)
async def glossaries(request: Request, caller: Caller) -> GlossaryList:
    """List the client's own glossaries, and those in the service's folder, whose ids are their names. Glossaries with
    more pairs are in /v3/glossaries."""
    stored = [
        each for each in await app_of(request).glossaries.available_to(caller.name) if len(each.dictionaries) == 1
    ]
    return GlossaryList(glossaries=[glossary_info(each) for each in stored])


@router.get(
    "/v2/glossaries/{glossary_id}",
    summary="Get a glossary",
    responses=error_responses(errors.InvalidFields, StoreUnavailable, missing=_NO_GLOSSARY),
)
async def glossary(glossary_id: GlossaryId, request: Request, caller: Caller) -> GlossaryInfo:
    """Return a glossary without its entries."""
    return glossary_info(_check_single(await _find_glossary(request, caller, glossary_id)))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    summary="Get the entries of a glossary",
    response_class=Response,
    responses={
        200: {
            "description": "One line per term: the term, a tab, its translation",
            "content": {TSV: {"schema": {"type": "string"}, "example": "cat\tmatou\nhouse\tbaraque"}},
        },
        **error_responses(errors.InvalidFields, StoreUnavailable, missing=_NO_GLOSSARY),
    },
)
async def entries(glossary_id: GlossaryId, request: Request, caller: Caller) -> Response:
    """Return the terms of a glossary and their translations."""
    (terms,) = _check_single(await _find_glossary(request, caller, glossary_id)).dictionaries.values()
    return Response(write_tsv(terms), media_type=TSV)


def _check_single(found: StoredGlossary) -> StoredGlossary:
    """Returns `found` if it has exactly one dictionary. Raises InvalidFields otherwise."""
    if len(found.dictionaries) != 1:
        raise invalid_field(
            "glossary_id", f"{found.name} has {len(found.dictionaries)} dictionaries: see /v3/glossaries."
        )
    return found


_DELETE: dict[str, Any] = {
    "summary": "Delete a glossary",
    "status_code": 204,
    "response_class": Response,
    "responses": error_responses(errors.InvalidFields, errors.Unavailable, StoreUnavailable, missing=_NO_GLOSSARY),
}


@router.delete("/v3/glossaries/{glossary_id}", **_DELETE)
@router.delete("/v2/glossaries/{glossary_id}", **_DELETE)
async def delete(glossary_id: GlossaryId, request: Request, caller: Caller) -> Response:
    """Delete one of the client's own glossaries."""
    _check_found(await app_of(request).glossaries.delete(glossary_id, caller.name))
    return Response(status_code=204)


# ---- Version 3


@router.post(
    "/v3/glossaries",
    summary="Create a multilingual glossary",
    status_code=201,
    openapi_extra=request_body(MultilingualRequest, {"name": "Animals", "dictionaries": [_TERMS]}),
    responses=error_responses(*_WRITE_ERRORS),
)
async def create_multilingual(request: Request, caller: Caller) -> MultilingualInfo:
    """Create a glossary, which only its owner can see and use."""
    body = validated(MultilingualRequest, await read_fields(request))
    return multilingual_info(await _add(request, caller, body.name, body.dictionaries))


@router.get("/v3/glossaries", summary="List all glossaries", responses=error_responses(StoreUnavailable))
async def multilingual_glossaries(request: Request, caller: Caller) -> MultilingualList:
    """List the client's own glossaries, and those in the service's folder, whose ids are their names."""
    stored = await app_of(request).glossaries.available_to(caller.name)
    return MultilingualList(glossaries=[multilingual_info(each) for each in stored])


@router.get(
    "/v3/glossaries/{glossary_id}",
    summary="Get a glossary",
    responses=error_responses(StoreUnavailable, missing=_NO_GLOSSARY),
)
async def multilingual_glossary(glossary_id: GlossaryId, request: Request, caller: Caller) -> MultilingualInfo:
    """Return a glossary without its entries."""
    return multilingual_info(await _find_glossary(request, caller, glossary_id))


@router.patch(
    "/v3/glossaries/{glossary_id}",
    summary="Edit a glossary",
    openapi_extra=request_body(ChangeRequest, {"name": "Beasts", "dictionaries": [_TERMS]}),
    responses=error_responses(*_WRITE_ERRORS, missing=_NO_GLOSSARY),
)
async def change(glossary_id: GlossaryId, request: Request, caller: Caller) -> MultilingualInfo:
    """Rename a glossary, or add dictionaries, or entries to existing dictionaries."""
    body = validated(ChangeRequest, await read_fields(request))
    catalogue = translator_of(request).catalogue
    added = await run(
        _size(body.dictionaries), lambda: [(each.pair, each.terms(catalogue)) for each in body.dictionaries]
    )

    def changed(found: StoredGlossary) -> StoredGlossary:
        dictionaries = dict(found.dictionaries)
        for pair, terms in added:
            dictionaries[pair] = {**dictionaries.get(pair, {}), **terms}
        return replace(found, name=body.name or found.name, dictionaries=dictionaries)

    return multilingual_info(_check_found(await app_of(request).glossaries.change(glossary_id, caller.name, changed)))


@router.get(
    "/v3/glossaries/{glossary_id}/entries",
    summary="Get the entries of a dictionary",
    responses=error_responses(errors.InvalidFields, StoreUnavailable, missing=[*_NO_GLOSSARY, "dictionary"]),
)
async def multilingual_entries(
    glossary_id: GlossaryId, query: Annotated[PairRequest, Query()], request: Request, caller: Caller
) -> EntriesResponse:
    """Return the terms of one language pair and their translations."""
    terms = _terms(await _find_glossary(request, caller, glossary_id), query.pair)
    return EntriesResponse(dictionaries=[dictionary_entries(query.pair, terms)])


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Replace a dictionary",
    openapi_extra=request_body(DictionaryRequest, _TERMS),
    responses=error_responses(*_WRITE_ERRORS, missing=_NO_GLOSSARY),
)
async def replace_dictionary(glossary_id: GlossaryId, request: Request, caller: Caller) -> DictionaryInfo:
    """Replace the dictionary of a language pair, or add one."""
    body = validated(DictionaryRequest, await read_fields(request))
    terms = await run(_size([body]), body.terms, translator_of(request).catalogue)
    edit = partial(_with_dictionary, pair=body.pair, terms=terms)
    _check_found(await app_of(request).glossaries.change(glossary_id, caller.name, edit))
    return dictionary_info(body.pair, terms)


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries",
    summary="Delete a dictionary",
    status_code=204,
    response_class=Response,
    responses=error_responses(
        errors.InvalidFields, errors.Unavailable, StoreUnavailable, missing=[*_NO_GLOSSARY, "dictionary"]
    ),
)
async def delete_dictionary(
    glossary_id: GlossaryId, query: Annotated[PairRequest, Query()], request: Request, caller: Caller
) -> Response:
    """Delete the dictionary of one language pair."""
    _terms(await _find_glossary(request, caller, glossary_id), query.pair)
    edit = partial(_with_dictionary, pair=query.pair, terms=None)
    _check_found(await app_of(request).glossaries.change(glossary_id, caller.name, edit))
    return Response(status_code=204)


def _with_dictionary(found: StoredGlossary, pair: LanguagePair, terms: Terms | None) -> StoredGlossary:
    """The glossary with this dictionary added, or without any for the pair."""
    others = {other: entries for other, entries in found.dictionaries.items() if other != pair}
    return replace(found, dictionaries=others if terms is None else {**others, pair: terms})


def _terms(found: StoredGlossary, pair: LanguagePair) -> Terms:
    """Raises HTTPException."""
    if pair not in found.dictionaries:
        raise not_found("dictionary")
    return found.dictionaries[pair]
