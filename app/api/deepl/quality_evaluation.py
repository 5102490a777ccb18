"""DeepL's /v1/quality-evaluation: which words of given translations are probably wrong or missing.

The shapes are those of its documentation of June 2026, and what came later: the plural, and scores of segments.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from msgspec import json
from pydantic import Field
from starlette.background import BackgroundTask

from app.api.deepl.memory_jobs import keep
from app.api.deepl.wire_format import (
    Body,
    Caller,
    error_responses,
    invalid_field,
    not_found,
    pair_of,
    request_body,
    validated,
)
from app.api.dependencies import RequestState, state_of
from app.api.openapi_parts import BODY_ERRORS, TRANSLATION_ERRORS
from app.api.schemas.fields import Language
from app.errors import ServiceError, StoreUnavailable
from app.http.auth import Client
from app.http.forms import read_fields
from app.http.json_body import check_load
from app.services.downloads import Download
from app.text.segmentation import segments
from app.translation.documents import retry_while_overloaded
from app.translation.quality_checks import find_untranslated_words, untranslated_warning
from app.translation.scoring import GivenPair, ScoredPair, score_pairs

router = APIRouter()
JobId = Annotated[UUID, Path(description="The evaluation's id", examples=["f3a8c5e1-9b7d-4e62-a1c4-8f5d2b6e3c19"])]
Text = Annotated[str, Field(pattern=r"\S", max_length=10_000)]
Span = tuple[int, int]
Part = tuple[GivenPair, Span]
"""A sentence of a segment with its translation, and where both begin."""
_MEDIA_TYPE = "application/x-evaluation+json"
_LOG_PROBS = {"Critical": -10.0, "Major": -7.0, "Minor": -5.0}
"""A word whose log probability is lower is an error of that severity. docs/deepl.md has the error rates."""
_PENALTIES = {"Critical": 5, "Major": 3, "Minor": 1}
"""Over the number of words; so the examples of DeepL's documentation have about the scores that they have there."""
_PAIRS_AT_ONCE = 100
_FIELDS = "type", "sub_type", "severity", "explanation", "source_spans", "target_spans"
_EXAMPLE = {
    "metadata": {"source_language": "en", "target_language": "fr"},
    "segments": [{"source": "The cat sleeps.", "target": "Le chien dort."}],
}


class Metadata(Body):
    """The languages of all segments."""

    source_language: Language = Field(description="The language of the sources")
    target_language: Language = Field(description="The language of the targets")


class Segment(Body):
    """A text and a translation of it."""

    source: Text = Field(description="The text")
    target: Text = Field(description="Its translation")


class EvaluationRequest(Body):
    """Translations to evaluate."""

    metadata: Metadata
    segments: list[Segment] = Field(min_length=1, max_length=500, fail_fast=True, description="The translations")


@router.post("/v1/quality-evaluations", include_in_schema=False)
@router.post(
    "/v1/quality-evaluation",
    summary="Evaluate translations",
    status_code=202,
    openapi_extra=request_body(EvaluationRequest, _EXAMPLE),
    responses=error_responses(*BODY_ERRORS, *TRANSLATION_ERRORS, StoreUnavailable),
)
async def evaluate(request: Request, caller: Caller) -> Response:
    """Find words that are probably wrong or missing. The evaluation is kept for ten minutes."""
    check_load(request)
    body = validated(EvaluationRequest, await read_fields(request))
    translator = state_of(request)["translator"]
    source, target = pair_of(translator.catalogue, body.metadata.source_language, body.metadata.target_language)
    assert source
    translator.catalogue.find(source, target)
    await caller.charge(translator.cost([text for each in body.segments for text in (each.source, each.target)]))
    file = await keep(request, Download("evaluation", json.encode([caller.name, None]), _MEDIA_TYPE))
    id, path = str(UUID(file.partition(".")[0])), request.scope["path"].rpartition("/")[2]
    work = BackgroundTask(_evaluate, state_of(request), file, caller, body.segments, source, target)
    return JSONResponse({"job_id": id, "poll_url": f"/v1/{path}/{id}"}, 202, {"Retry-After": "1"}, background=work)


async def _evaluate(
    state: RequestState, file: str, caller: Client, given: Sequence[Segment], source: str, target: str
) -> None:
    """Evaluates translations for a job that is kept already, in several requests to the engine."""
    translator, done = state["translator"], list[ScoredPair | ServiceError]()
    try:
        parts = await asyncio.to_thread(lambda: [_parts(each, source, target) for each in given])
        pairs = [pair for of in parts for pair, _ in of]
        for at in range(0, len(pairs), _PAIRS_AT_ONCE):
            some = pairs[at : at + _PAIRS_AT_ONCE]
            work = partial(score_pairs, translator, some, source, target, client=caller.scheduled_as)
            done += (await retry_while_overloaded(work)).pairs
        report = await asyncio.to_thread(_report, given, parts, iter(done))
    except ServiceError as error:
        report = {"status": "error", "error": {"code": "evaluation_failed", "message": error.detail}}
    await state["downloads"].change(file, json.encode([caller.name, report]))


@router.get("/v1/quality-evaluations/{job_id}", include_in_schema=False)
@router.get(
    "/v1/quality-evaluation/{job_id}",
    summary="Get an evaluation of translations",
    responses=error_responses(StoreUnavailable, missing=["evaluation"]),
)
async def evaluation(job_id: JobId, request: Request, caller: Caller) -> Response:
    """Return the errors of each segment, and a score from 0 to 100 with the number of errors of each kind."""
    file = await state_of(request)["downloads"].find(f"{job_id.hex}.evaluation")
    owner, report = json.decode(file.content) if file and file.media_type == _MEDIA_TYPE else (None, None)
    if owner != caller.name:
        raise not_found("evaluation")
    if report is None:
        return JSONResponse({"job_id": str(job_id), "status": "processing"}, 202, {"Retry-After": "1"})
    return JSONResponse({"job_id": str(job_id), **report})


def _parts(segment: Segment, source: str, target: str) -> list[Part]:
    """The sentences of a segment, since models are trained on single ones, or all of it if its translation has more or
    fewer."""
    found = segments(segment.source, source), segments(segment.target, target)
    sides = [[(each.start, each.end) for each in side if each.translate] for side in found]
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        sides = [[(len(text) - len(text.lstrip()), len(text))] for text in (segment.source, segment.target)]
    return [
        (GivenPair(segment.source[slice(*one)], segment.target[slice(*other)]), (one[0], other[0]))
        for one, other in zip(*sides, strict=True)
    ]


def _report(
    given: Sequence[Segment], parts: Sequence[Sequence[Part]], done: Iterator[ScoredPair | ServiceError]
) -> dict[str, Any]:
    """Raises InvalidFields for a segment that could not be scored."""
    shown, counts, all_penalties, all_words = [], dict[str, Counter[str]](), 0, 0
    for number, (segment, of) in enumerate(zip(given, parts, strict=True)):
        errors, words = list[dict[str, Any]](), 0
        for part in of:
            scored = next(done)
            if isinstance(scored, ServiceError):
                raise invalid_field(f"segments/{number}", scored.detail)
            found, count = _errors(*part, scored)
            errors, words = errors + found, words + count
        for error in errors:
            counts.setdefault(error["sub_type"], Counter())[error["severity"]] += 1
        penalties = sum(_PENALTIES[error["severity"]] for error in errors)
        score = _score(penalties, words)
        shown.append({"segment_index": number, "segment_score": score, **segment.model_dump(), "errors": errors})
        all_penalties, all_words = all_penalties + penalties, all_words + words
    score = round(_score(all_penalties, all_words))
    summary = {"overall_score": score, "granular_counts": {"Accuracy": counts} if counts else {}}
    return {"status": "done", "segments": shown, "summary": summary}


def _score(penalties: int, words: int) -> float:
    return round(max(0.0, 100 - 100 * penalties / max(1, words)), 1)


def _errors(pair: GivenPair, starts: Span, scored: ScoredPair) -> tuple[list[dict[str, Any]], int]:
    """Words that the model would hardly use, and words of the text that it finds missing; and the number of words."""
    sentence, decoded, bundle = scored.sentence, scored.decoded, scored.sentence.bundle
    errors, read, count = [], sentence.source_spans(), 0
    for first, end, log_prob in bundle.target_tokenizer.words(decoded.tokens, decoded.log_probs, bundle.target):
        span = scored.tokens[first].start, scored.tokens[end - 1].end
        if not any(map(str.isalnum, pair.translation[slice(*span)])):
            continue
        count += 1
        severity = next((severity for severity, limit in _LOG_PROBS.items() if log_prob < limit), None)
        if severity:
            told = f"The model gives this word a probability of 1 in {math.exp(-log_prob):,.0f}."
            source = _joined(sentence.passage.text, [read[index] for index in decoded.aligned[first:end]], starts[0])
            values = "Accuracy", "Mistranslation", severity, told, source, _joined(pair.translation, [span], starts[1])
            errors.append(dict(zip(_FIELDS, values, strict=True)))
    if missed := find_untranslated_words(sentence):
        told = untranslated_warning([word[0] for word in missed])
        source = _joined(sentence.passage.text, [word.span() for word in missed], starts[0])
        errors.append(dict(zip(_FIELDS, ("Accuracy", "Omission", "Major", told, source, ()), strict=True)))
    return errors, count


def _joined(text: str, spans: Iterable[Span], offset: int) -> list[dict[str, int]]:
    """The spans, `offset` later, without the white space before them; those that only a space is between are one."""
    joined: list[Span] = []
    for start, end in sorted(set(spans)):
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if start < end and joined and start <= joined[-1][1] + 1:
            start, end = joined.pop()[0], end
        if start < end:
            joined.append((start, end))
    return [{"start": start + offset, "end": end + offset} for start, end in joined]
