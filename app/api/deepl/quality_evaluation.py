"""DeepL's /v1/quality-evaluation: which words of given translations are probably wrong or missing.

The shapes are those of its documentation of June 2026, and what came later: the plural, and scores of segments.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from msgspec import json
from pydantic import Field

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
from app.api.dependencies import state_of
from app.api.openapi_parts import BODY_ERRORS, TRANSLATION_ERRORS
from app.api.schemas.fields import Language
from app.errors import InvalidFields, ServiceError, StoreUnavailable
from app.http.forms import read_fields
from app.http.json_body import check_load, while_connected
from app.services.downloads import Download
from app.text.segmentation import segments
from app.translation.quality_checks import find_untranslated_words, untranslated_warning
from app.translation.scoring import GivenPair, ScoredPair, score_pairs
from model.quality import DOUBTFUL_WORD

router = APIRouter()
JobId = Annotated[UUID, Path(description="The evaluation's id", examples=["f3a8c5e1-9b7d-4e62-a1c4-8f5d2b6e3c19"])]
Text = Annotated[str, Field(pattern=r"\S", max_length=10_000)]
Span = tuple[int, int]
Part = tuple[GivenPair, Span]
"""A sentence of a segment with its translation, and where both begin."""
_MEDIA_TYPE = "application/x-evaluation+json"
_PENALTIES = {"Critical": 8, "Major": 3, "Minor": 1}
"""Over the number of tokens. The examples of DeepL's documentation get about the scores that they have there."""
_CRITICAL, _MAJOR = 0.02, 0.1
"""How probably a word is right, at most, if it is as wrong as that; other doubtful words are minor errors."""
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
    """Find words that are probably wrong or missing. The evaluation is done at once, and kept for ten minutes."""
    check_load(request)
    body = validated(EvaluationRequest, await read_fields(request))
    translator = state_of(request)["translator"]
    source, target = pair_of(translator.catalogue, body.metadata.source_language, body.metadata.target_language)
    assert source
    await caller.charge(translator.cost([text for each in body.segments for text in (each.source, each.target)]))
    parts = await asyncio.to_thread(lambda: [_parts(each, source, target) for each in body.segments])
    pairs = [pair for of in parts for pair, _ in of]
    work = score_pairs(translator, pairs, source, target, None, request.state.waited_s, caller.scheduled_as)
    done = await while_connected(request, work)
    try:
        report = await asyncio.to_thread(_report, body.segments, parts, iter(done.pairs))
    except InvalidFields as error:
        report = {"status": "error", "error": {"code": "evaluation_failed", "message": error.detail}}
    file = await keep(request, Download("evaluation", json.encode([caller.name, report]), _MEDIA_TYPE))
    id, path = str(UUID(file.partition(".")[0])), request.scope["path"].rpartition("/")[2]
    return JSONResponse({"job_id": id, "poll_url": f"/v1/{path}/{id}"}, 202, {"Retry-After": "0"})


@router.get("/v1/quality-evaluations/{job_id}", include_in_schema=False)
@router.get(
    "/v1/quality-evaluation/{job_id}",
    summary="Get an evaluation of translations",
    responses=error_responses(StoreUnavailable, missing=["evaluation"]),
)
async def evaluation(job_id: JobId, request: Request, caller: Caller) -> dict[str, Any]:
    """Return the errors of each segment, and a score from 0 to 100 with the number of errors of each kind."""
    file = await state_of(request)["downloads"].find(f"{job_id.hex}.evaluation")
    owner, report = json.decode(file.content) if file and file.media_type == _MEDIA_TYPE else (None, {})
    if owner != caller.name:
        raise not_found("evaluation")
    return {"job_id": str(job_id), **report}


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
    """Raises InvalidFields for what could not be evaluated."""
    shown, counts, all_penalties, all_tokens = [], dict[str, Counter[str]](), 0, 0
    for number, (segment, of) in enumerate(zip(given, parts, strict=True)):
        errors, tokens = list[dict[str, Any]](), 0
        for part in of:
            scored = next(done)
            if isinstance(scored, ServiceError):
                raise invalid_field(f"segments/{number}", scored.detail)
            errors += _errors(*part, scored)
            tokens += len(scored.tokens)
        for error in errors:
            counts.setdefault(error["sub_type"], Counter())[error["severity"]] += 1
        penalties = sum(_PENALTIES[error["severity"]] for error in errors)
        score = round(max(0.0, 100 - 100 * penalties / tokens), 1)
        shown.append({"segment_index": number, "segment_score": score, **segment.model_dump(), "errors": errors})
        all_penalties, all_tokens = all_penalties + penalties, all_tokens + tokens
    score = round(max(0, 100 - 100 * all_penalties / all_tokens))
    summary = {"overall_score": score, "granular_counts": {"Accuracy": counts} if counts else {}}
    return {"status": "done", "segments": shown, "summary": summary}


def _errors(pair: GivenPair, starts: Span, scored: ScoredPair) -> Iterator[dict[str, Any]]:
    """Words that the model doubts, those that adjoin as one error; and words of the text that it finds missing."""
    sentence, decoded, bundle = scored.sentence, scored.decoded, scored.sentence.bundle
    if bundle.quality is None:
        raise InvalidFields(f"The model from {bundle.source} to {bundle.target} does not estimate its quality.")
    words = []
    for first, end, log_prob in bundle.target_tokenizer.words(decoded.tokens, decoded.log_probs, bundle.target):
        span = scored.tokens[first].start, scored.tokens[end - 1].end
        if any(map(str.isalnum, pair.translation[slice(*span)])):
            words.append((bundle.quality.word_probability(log_prob), span, decoded.aligned[first:end]))
    read = sentence.source_spans()
    for is_doubtful, run in groupby(words, key=lambda word: word[0] < DOUBTFUL_WORD):
        if is_doubtful:
            probabilities, spans, aligned = zip(*run, strict=True)
            least = min(probabilities)
            severity = "Critical" if least < _CRITICAL else "Major" if least < _MAJOR else "Minor"
            told = f"The probability that this is right is {least:.2f}."
            source = _joined(sentence.passage.text, [read[index] for of in aligned for index in of], starts[0])
            target = _joined(pair.translation, spans, starts[1])
            yield dict(zip(_FIELDS, ("Accuracy", "Mistranslation", severity, told, source, target), strict=True))
    if missed := find_untranslated_words(sentence):
        source = _joined(sentence.passage.text, [word.span() for word in missed], starts[0])
        told = untranslated_warning([word[0] for word in missed])
        yield dict(zip(_FIELDS, ("Accuracy", "Omission", "Major", told, source, ()), strict=True))


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
