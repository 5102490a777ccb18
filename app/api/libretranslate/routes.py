"""LibreTranslate's routes, with its fields, responses and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, HTTPException, Path, Request, Response
from fastapi.responses import JSONResponse

from app import formats
from app.api.dependencies import state_of
from app.api.engine_option import note_engine
from app.api.libretranslate.openapi import (
    DETECT,
    DOWNLOAD,
    NO_SUCH_FILE,
    NO_SUGGESTIONS,
    SUGGEST,
    TRANSLATE,
    TRANSLATE_FILE,
    missing_message,
)
from app.api.libretranslate.schemas import (
    MAX_ALTERNATIVES,
    FileToTranslate,
    LibreDetection,
    LibreFile,
    LibreLanguage,
    LibreLanguageName,
    LibreLanguages,
    LibreRequest,
    LibreSettings,
    LibreSuggested,
    LibreTranslation,
    Suggestion,
    ToDetect,
    ToTranslate,
)
from app.api.memory_option import memory_option
from app.api.schemas.health import Health
from app.engine.registry import Catalogue
from app.errors import InvalidFields, PairNotServed, TooMuchText
from app.formats import MEDIA_TYPES
from app.http.auth import Client, bearer
from app.http.download_headers import download_headers
from app.http.forms import Fields, Upload, read_fields, read_query, read_upload
from app.http.json_body import check_load, while_connected
from app.http.problems import validated
from app.services.downloads import Download
from app.services.memory_log import Scope
from app.translation.documents import document_file, in_time, open_document, translate_document
from app.translation.memory import MemoryOption
from app.translation.translator import Translator
from app.translation.types import AUTO, Options, TranslatedText
from model.languages import language_name, served_code

router = APIRouter(tags=["LibreTranslate"])
A = TypeVar("A", bound=LibreRequest)
L = TypeVar("L", ToTranslate, FileToTranslate)
_TYPING_PAUSE_MS = 500


@router.post("/translate", summary="Translate texts", response_model=LibreTranslation, **TRANSLATE)
async def translate(request: Request) -> Response:
    """Translate a text, or a list of texts.

    If one text of a list fails, the response is an error. With source `auto`, long texts of a list that seem to be in
    an unsupported language are returned unchanged, as long as there are others; their confidence is then near 0.
    """
    check_load(request)
    early = await _admit_early(request)
    fields = await read_fields(request)
    client = early or await _admit(request, fields)
    translator = state_of(request)["translator"]
    body = _served(_validated(ToTranslate, fields, "q", "source", "target"), translator.catalogue)
    memory = await memory_option(request, body.source, body.target)
    items = await while_connected(request, _translated(request, translator, client, body, memory))
    return JSONResponse(_answer(body, items, translator.catalogue))


async def _translated(
    request: Request, translator: Translator, client: Client, body: ToTranslate, memory: MemoryOption | None
) -> Sequence[TranslatedText]:
    """Raises what the translator raises, for any of the texts."""
    translator.check(body.texts)
    if body.source == body.target:
        return [TranslatedText(text, None, None) for text in body.texts]
    await client.charge(translator.cost(body.texts))
    options = Options(
        body.source,
        body.target,
        alternatives=_alternatives_of(body),
        html=body.format == "html",
        waited_s=request.state.waited_s,
        client=client.scheduled_as,
        memory=memory,
        engine=body.engine,
    )
    done = note_engine(request, await translator.translate(body.texts, options))
    for item in done.items:
        if item.error and not (body.source == AUTO and isinstance(item.error, PairNotServed)):
            raise item.error
    return done.items


def _answer(body: ToTranslate, items: Sequence[TranslatedText], catalogue: Catalogue) -> dict[str, object]:
    """A LibreTranslation."""
    lists: dict[str, list[object]] = {
        "translatedText": [
            text if item.text is None else item.text for text, item in zip(body.texts, items, strict=True)
        ]
    }
    if body.source == AUTO:
        lists["detectedLanguage"] = [_detection(catalogue, item.source, item.confidence) for item in items]
    if _alternatives_of(body):
        lists["alternatives"] = [[text for text, _ in item.alternatives] for item in items]
    return {name: values if isinstance(body.q, list) else values[0] for name, values in lists.items()}


def _alternatives_of(body: ToTranslate) -> int:
    return min(max(body.alternatives, 0), MAX_ALTERNATIVES)


def _detection(catalogue: Catalogue, language: str | None, confidence: float | None) -> dict[str, object]:
    """A LibreDetection. A text without words gets the first language, with confidence 0: clients look the code up in
    /languages."""
    targets_by_source = _languages(catalogue)
    found = language if language in targets_by_source else catalogue.source_languages[0]
    return {"confidence": round(100 * (confidence or 0.0), 1), "language": found}


@router.post("/detect", summary="Detect the language of a text", response_model=list[LibreDetection], **DETECT)
async def detect(request: Request) -> Response:
    """Detect which of the served languages a text is in. The list has one entry, with its confidence."""
    early = await _admit_early(request)
    fields = await read_fields(request)
    if early is None:
        await _admit(request, fields)
    body = _validated(ToDetect, fields, "q")
    text = "\n".join(body.q) if isinstance(body.q, list) else body.q
    translator = state_of(request)["translator"]
    translator.check_length(len(text))
    found = await asyncio.to_thread(translator.detect, text)
    return JSONResponse([_detection(translator.catalogue, *found)])


@router.get("/languages", summary="List languages, with the targets of each")
async def libre_languages(request: Request) -> list[LibreLanguage]:
    """List the languages. Each is also its own target, as in LibreTranslate; such texts are returned unchanged."""
    return [
        LibreLanguage(code=code, name=language_name(code), targets=sorted(targets))
        for code, targets in sorted(_languages(state_of(request)["translator"].catalogue).items())
    ]


@router.get("/health", summary="Liveness: is the process responding?")
async def libre_health() -> Health:
    """Return 200 as long as the process responds, however busy the engine is."""
    return Health(status="ok")


@router.get("/frontend/settings", summary="Settings for a translation page")
async def frontend_settings(request: Request) -> LibreSettings:
    """Return limits, file formats and the initially selected languages."""
    access_control = state_of(request)["access_control"]
    target = state_of(request)["translator"].catalogue.target_languages[0]
    return LibreSettings(
        charLimit=state_of(request)["settings"].max_text_chars,
        frontendTimeout=_TYPING_PAUSE_MS,
        apiKeys=access_control.requires_key,
        keyRequired=access_control.requires_key,
        suggestions=request.state.translation_memory is not None,
        filesTranslation=True,
        supportedFilesFormat=list(MEDIA_TYPES),
        language=LibreLanguages(
            source=LibreLanguageName(code=AUTO, name="Auto Detect"),
            target=LibreLanguageName(code=target, name=language_name(target)),
        ),
    )


@router.post("/suggest", summary="Suggest a better translation", response_model=LibreSuggested, **SUGGEST)
async def suggest(request: Request) -> Response:
    """Remember a translation in the translation memory of the client's key; 403 if the service keeps none.

    From then on, equal texts and sentences get it.
    """
    early = await _admit_early(request)
    fields = await read_fields(request)
    client = early or await _admit(request, fields)
    memory = state_of(request)["translation_memory"]
    if memory is None:
        return JSONResponse({"error": NO_SUGGESTIONS}, 403)
    translator = state_of(request)["translator"]
    body = _validated(Suggestion, fields, "q", "s", "source", "target")
    translator.check([body.q, body.s])
    source = body.source
    if source.lower() == AUTO:
        source = (await asyncio.to_thread(translator.detect, body.q)).language or translator.catalogue.source_languages[
            0
        ]
    source, target = translator.catalogue.codes(source, body.target)
    translator.catalogue.route(source, target)
    await memory.put(Scope(client.name, source, target), [(body.q, body.s)], client.name)
    return JSONResponse({"success": True})


@router.post("/translate_file", summary="Translate a document", response_model=LibreFile, **TRANSLATE_FILE)
async def libre_translate_file(request: Request) -> Response:
    """Translate a document and return a URL from which the translation can be downloaded for ten minutes."""
    check_load(request)
    early = await _admit_early(request)
    file, fields = await read_upload(request)
    client = early or await _admit(request, fields)
    body = _served(_validated(FileToTranslate, fields, "source", "target"), state_of(request)["translator"].catalogue)
    downloads = state_of(request)["downloads"]
    downloads.check()
    work = in_time(request.state.settings, _translated_file(request, client, file, body))
    translated = await while_connected(request, work)
    name = await downloads.add(translated)
    if name is None:
        raise TooMuchText("The translated file is too large to be kept for download.")
    # Below the URL of this request. `url_for` fails on a wrong Host header.
    path = request.scope["path"].removesuffix("translate_file")
    host = request.headers.get("host", "localhost")
    return JSONResponse({"translatedFileUrl": f"{request.scope['scheme']}://{host}{path}download_file/{name}"})


async def _translated_file(request: Request, client: Client, file: Upload, body: FileToTranslate) -> Download:
    state = request.state
    given = document_file(
        state.documents,
        client.identity,
        file.name,
        file.content,
        body.target,
        state.settings,
        body.source,
        {"charset": file.charset},
    )
    document = await open_document(given, state.settings)
    content = file.content
    if body.source != body.target:
        await client.charge(document.characters)
        memory = await memory_option(request, body.source, body.target)
        options = Options(body.source, body.target, client=client.scheduled_as, memory=memory, engine=body.engine)
        content, done = await translate_document(state.translator, document, options)
        note_engine(request, done)
    return Download(formats.translated_name(file.name, body.target), content, document.media_type)


@router.get("/download_file/{name}", summary="Download a translated document", response_class=Response, **DOWNLOAD)
async def download_file(
    name: Annotated[str, Path(description="The last part of the URL that /translate_file returned")], request: Request
) -> Response:
    """Download a file that /translate_file made. Anyone who knows the name can download it."""
    file = await state_of(request)["downloads"].find(name)
    if file is None:
        raise HTTPException(404, NO_SUCH_FILE)
    return Response(file.content, media_type=file.media_type, headers=download_headers(file.name))


async def _admit_early(request: Request) -> Client | None:
    """Admits the client before its body is read if no key is required, so that unreadable bodies count as requests too.

    A required key may be in the body: unless it is in the query or a header, the body counts against the budget of
    unauthenticated clients. Raises InvalidFields and TooManyRequests.
    """
    access_control = state_of(request)["access_control"]
    if not access_control.requires_key:
        return await access_control.admit(request, None)
    request.state.is_known = access_control.is_valid(_key(request, read_query(request)))
    return None


async def _admit(request: Request, fields: Fields) -> Client:
    """Raises NotAuthorised and TooManyRequests."""
    return await state_of(request)["access_control"].admit(request, _key(request, fields))


def _key(request: Request, fields: Fields) -> str | None:
    key = fields.one("api_key")
    return key if key and isinstance(key, str) else bearer(request)


def _validated(kind: type[A], fields: Fields, *required: str) -> A:
    """Raises InvalidFields. Empty fields count as missing, as in LibreTranslate."""
    values = {name: value for name in kind.model_fields if (value := fields.one(name)) not in ("", [], None)}
    for name in required:
        if name not in values:
            raise InvalidFields(missing_message(name))
    return validated(kind, values)


def _served(body: L, catalogue: Catalogue) -> L:
    """`body` with the codes under which its languages are served. Raises PairNotServed."""
    targets_by_source = _languages(catalogue)

    def served(code: str) -> str:
        if found := served_code(code, targets_by_source):
            return found
        raise PairNotServed(f"{code} is not supported")

    source = AUTO if body.source.lower() == AUTO else served(body.source)
    return body.model_copy(update={"source": source, "target": served(body.target)})


def _languages(catalogue: Catalogue) -> dict[str, set[str]]:
    """The targets of every language that is a source or a target."""
    targets = {source: {source, *to} for source, to in catalogue.targets_by_source.items()}
    return targets | {target: {target} for target in catalogue.target_languages if target not in targets}
