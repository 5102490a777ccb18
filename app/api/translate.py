"""POST /translate, and POST /translate/stream, which sends the translation sentence by sentence."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from msgspec import structs
from pydantic_core import to_json

from app.api.json_routes import JSONRoute
from app.api.memory_option import memory_option, note_engine
from app.api.openapi_parts import ADMISSION_ERRORS, BODY_ERRORS, TRANSLATION_ERRORS, error_responses
from app.api.schemas.translation import StreamRequest, TranslateRequest, TranslateResponse
from app.api.state import translator_of
from app.errors import InvalidFields, NoTranslationMemory, ServiceError
from app.formats import json_strings
from app.http.json_body import while_connected
from app.http.problems import problem_of
from app.runtime.event_loop import run
from app.server.state import state_of
from app.text.line_breaks import LineBreaks, ReflowedText
from app.translation.types import Options, TranslatedPart, TranslatedText, Translations

router = APIRouter(route_class=JSONRoute)
ERRORS = (*ADMISSION_ERRORS, NoTranslationMemory, *BODY_ERRORS, *TRANSLATION_ERRORS)
EVENTS = "text/event-stream"
_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["part", "done", "error"], "description": "Which of the three `data` is"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "anyOf": [
                    {"$ref": "#/components/schemas/StreamedPart"},
                    {"$ref": "#/components/schemas/TranslateResponse"},
                    {"$ref": "#/components/schemas/Problem"},
                ]
            },
            "description": "A StreamedPart, a TranslateResponse or a Problem",
        },
    },
}
_EXAMPLE = """event: part
data: {"item":0,"text":"Bonjour.","source":[0,6],"score":-0.21}

event: done
data: {"translations":[...],"model":"en-fr@0123456789ab","usage":{"source_tokens":3,"target_tokens":4}}

"""

_UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Keeps proxies from buffering events; the second header is nginx's."""


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=TranslateResponse,
    responses=error_responses(*ERRORS),
    tags=["translation"],
)
async def translate(body: TranslateRequest, request: Request) -> Response:
    """Translate texts. Everything that is not text is preserved: white space, placeholders, and the markup of HTML."""
    joins = body.line_breaks != "keep"
    if body.format == "html" and (joins or body.alignment):
        raise InvalidFields.at("#/alignment" if body.alignment else "#/line_breaks", "only available for plain text")
    if joins and body.alignment:
        raise InvalidFields.at("#/alignment", "only available if `line_breaks` is `keep`")
    if body.prefix and (joins or body.format == "html" or body.glossary is not None):
        raise InvalidFields.at("#/prefix", "only available for plain text, with `line_breaks` `keep` and no glossary")
    if body.prefix and isinstance(body.text, list) and len(body.text) != 1:
        raise InvalidFields.at("#/prefix", "only available for a single text")
    translator = translator_of(request)
    texts, options = await _texts(request, body), await _options(request, body)
    if joins:
        size = sum(map(len, texts))
        lines = await run(size, lambda: [_reflowed(text, body.line_breaks) for text in texts])
        work = translator.translate([each.text for each in lines], options)
        done = note_engine(request, await while_connected(request, work))
        done = await run(size, _rewrapped, lines, done)
    else:
        done = note_engine(request, await while_connected(request, translator.translate(texts, options)))
    # Shaped like a TranslateResponse, but not built as one: validating our own data takes 5 % of a short request.
    return Response(to_json(_response_fields(done), inf_nan_mode="null"), media_type="application/json")


def _reflowed(text: str, line_breaks: LineBreaks) -> ReflowedText:
    """Without change if the text is JSON, whose strings are translated alone."""
    return ReflowedText.of(text, "keep" if json_strings.text_pieces(text) else line_breaks)


@router.post(
    "/translate/stream",
    summary="Translate texts, a sentence at a time",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `part` (a StreamedPart) for each sentence, in order; at the end `done` "
            "(a TranslateResponse) or `error` (a Problem)",
            "content": {EVENTS: {"itemSchema": _EVENT, "example": _EXAMPLE}},
        },
        **error_responses(*ERRORS),
    },
    tags=["translation"],
)
async def stream(body: StreamRequest, request: Request) -> Response:
    """Translate texts, and send each sentence as soon as it and all before it are translated."""
    parts = translator_of(request).stream(await _texts(request, body), await _options(request, body))
    # If the request or its first sentence fails, the response is an error, as for any other route.
    first = await while_connected(request, anext(parts))
    return StreamingResponse(_events(request, first, parts), media_type=EVENTS, headers=_UNBUFFERED)


async def _events(
    request: Request,
    first: TranslatedPart | Translations,
    parts: AsyncGenerator[TranslatedPart | Translations, None],
) -> AsyncGenerator[bytes, None]:
    try:
        yield _event(first)
        async for part in parts:
            yield _event(note_engine(request, part) if isinstance(part, Translations) else part)
    except ServiceError as error:
        yield _sse("error", problem_of(error))
    finally:
        await parts.aclose()


def _event(part: TranslatedPart | Translations) -> bytes:
    if isinstance(part, TranslatedPart):
        return _sse("part", {**vars(part), "words": [word._asdict() for word in part.words]})
    return _sse("done", _response_fields(part))


def _sse(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(data, inf_nan_mode="null"))


async def _texts(request: Request, body: StreamRequest) -> list[str]:
    """Raises TooMuchText and TooManyCharacters."""
    translator = translator_of(request)
    texts = [body.text] if isinstance(body.text, str) else body.text
    translator.check_count(len(texts))
    await state_of(request).admitted.charge(translator.cost(texts))
    return texts


def _rewrapped(texts: Sequence[ReflowedText], done: Translations) -> Translations:
    """Restores the line wrapping where lines were joined."""
    items = []
    for lines, item in zip(texts, done.items, strict=True):
        text = None if item.text is None else lines.rewrap(item.text)
        others = [(lines.rewrap(other), score) for other, score in item.alternatives]
        suggestions = [each._replace(span=None) for each in item.suggestions]
        # Other offsets are not right any more.
        items.append(structs.replace(item, text=text, alternatives=others, words=(), suggestions=suggestions))
    return done._replace(items=items)


async def _options(request: Request, body: StreamRequest) -> Options:
    """Raises NoTranslationMemory and Unavailable."""
    state = state_of(request)
    options = Options(
        body.source,
        body.target,
        glossary=body.glossary,
        deadline_ms=body.deadline_ms,
        html=body.format == "html",
        waited_s=state.waited_s,
        client=state.admitted.scheduled_as,
        memory=await memory_option(request, body.source, body.target, body.memory, body.repair_tolerance),
        engine=body.engine,
        llm_below=body.llm_below,
    )
    if isinstance(body, TranslateRequest):
        options = structs.replace(options, alternatives=body.alternatives, alignment=body.alignment, prefix=body.prefix)
    return options


def _response_fields(done: Translations) -> dict[str, object]:
    return {
        "translations": [_translation_fields(item) for item in done.items],
        "model": done.model,
        "usage": {"source_tokens": done.source_tokens, "target_tokens": done.target_tokens},
    }


def _translation_fields(item: TranslatedText) -> dict[str, object]:
    pairs = item.alignment
    return {
        "text": item.text,
        "source": item.source,
        "via": item.via,
        "confidence": item.confidence,
        "score": item.score,
        "quality": item.quality,
        "words": [word._asdict() for word in item.words],
        "engine": item.engine,
        "finish_reason": item.finish_reason,
        "warnings": item.warnings,
        "alternatives": [{"text": text, "score": score} for text, score in item.alternatives],
        "alignment": pairs and [{"source": pair.source, "target": pair.target} for pair in pairs],
        "memory": item.memory,
        "memory_version": item.memory_version,
        "suggestions": [
            {
                "text": match.pair.source,
                "translation": match.pair.target,
                "percentage": match.percentage,
                "source": span,
                "repaired": is_repaired,
            }
            for match, span, is_repaired in item.suggestions
        ],
        "error": problem_of(item.error) if item.error else None,
    }
