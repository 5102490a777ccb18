"""DeepL's /v1/quality-evaluation: which words of given translations are probably wrong or missing.

The shapes are those of its documentation of June 2026, and what came later: the plural, and scores of segments.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from msgspec import json
from pydantic import Field

from app.api.admission import check_load
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
from app.api.openapi_parts import BODY_ERRORS, TRANSLATION_ERRORS
from app.api.schemas.fields import Language
from app.api.state import app_of, translator_of
from app.errors import ServiceError, StoreUnavailable
from app.http.forms import read_fields
from app.http.json_body import while_connected
from app.runtime.event_loop import run
from app.server.state import state_of
from app.storage.downloads import Download
from app.text.segmentation import segments
from app.translation.quality_checks import find_untranslated_words, untranslated_warning
from app.translation.scoring import GivenPair, ScoredPair, score_pairs

router = APIRouter()
JobId = Annotated[UUID, Path(description="The evaluation's id", examples=["f3a8c5e1-9b7d-4e62-a1c4-8f5d2b6e3c19"])]
Text = Annotated[str, Field(pattern=r"\S", max_length=10_000)]
_MEDIA_TYPE = "application/x-evaluation+json"
_LOG_PROBS = {"Critical": -10.0, "Major": -7.0, "Minor": -5.0}
"""A word whose log probability is lower is an error of that severity. docs/deepl.md has the error rates."""
_PENALTIES = {"Critical": 5, "Major": 3, "Minor": 1}
"""Over the number of words; so the examples of DeepL's documentation have about the scores that they have there."""
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


class _Part(NamedTuple):
    """A sentence of a segment with its translation, and where both begin."""

    segment: int
    pair: GivenPair
    source_start: int
    target_start: int


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
    translator = translator_of(request)
    source, target = pair_of(translator.catalogue, body.metadata.source_language, body.metadata.target_language)
    assert source
    texts = [text for each in body.segments for text in (each.source, each.target)]
    await caller.charge(translator.cost(texts))
    size = sum(map(len, texts))
    parts = await run(size, lambda: list(_parts(body.segments, source, target)))
    pairs, waited_s = [part.pair for part in parts], state_of(request).waited_s
    work = score_pairs(translator, pairs, source, target, None, waited_s, caller.scheduled_as)
    done = await while_connected(request, work)
    report = await run(size, _report, body.segments, parts, done.pairs)
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
    file = await app_of(request).downloads.find(f"{job_id.hex}.evaluation")
    owner, report = json.decode(file.content) if file and file.media_type == _MEDIA_TYPE else (None, {})
    if owner != caller.name:
        raise not_found("evaluation")
    return {"job_id": str(job_id), "status": "done", **report}


def _parts(given: Sequence[Segment], source: str, target: str) -> Iterator[_Part]:
    """The sentences of segments, since models are trained on single ones; all of a segment if its translation has more
    or fewer."""
    for number, (text, translation) in enumerate((each.source, each.target) for each in given):
        sides = [
            [(each.start, each.end) for each in side if each.translate]
            for side in (segments(text, source), segments(translation, target))
        ]
        if len(sides[0]) != len(sides[1]) or not sides[0]:
            sides = [[(len(side) - len(side.lstrip()), len(side))] for side in (text, translation)]
        for one, other in zip(*sides, strict=True):
            yield _Part(number, GivenPair(text[slice(*one)], translation[slice(*other)]), one[0], other[0])


def _report(given: Sequence[Segment], parts: Sequence[_Part], scored: Sequence[ScoredPair | ServiceError]) -> Any:
    """Raises InvalidFields for a segment that could not be scored."""
    errors, words = [list[dict[str, Any]]() for _ in given], [0 for _ in given]
    for part, pair in zip(parts, scored, strict=True):
        if isinstance(pair, ServiceError):
            raise invalid_field(f"segments/{part.segment}", pair.detail)
        found, count = _errors(part, pair)
        errors[part.segment] += found
        words[part.segment] += count
    total = [error for of in errors for error in of]
    kinds = sorted({error["sub_type"] for error in total})
    counts = {kind: Counter(error["severity"] for error in total if error["sub_type"] == kind) for kind in kinds}
    scores = [_score(*of) for of in zip(errors, words, strict=True)]
    return {
        "segments": [
            {"segment_index": number, "segment_score": scores[number], **each.model_dump(), "errors": errors[number]}
            for number, each in enumerate(given)
        ],
        "summary": {"overall_score": round(_score(total, sum(words))), "granular_counts": {"Accuracy": counts}},
    }


def _score(errors: Sequence[dict[str, Any]], words: int) -> float:
    return max(0.0, round(100 - 100 * sum(_PENALTIES[error["severity"]] for error in errors) / max(1, words), 1))


def _errors(part: _Part, scored: ScoredPair) -> tuple[list[dict[str, Any]], int]:
    """Words that the model would hardly use, and words of the text that it finds missing; and the number of words."""
    sentence, decoded = scored.candidate.sentence, scored.decoded
    bundle = sentence.bundle
    text, translation, read = sentence.passage.text, part.pair.translation, sentence.source_spans
    found, count = [], 0
    for first, end, log_prob in bundle.target_tokenizer.words(decoded.tokens, decoded.log_probs, bundle.target):
        span = scored.tokens[first].start, scored.tokens[end - 1].end
        if not any(map(str.isalnum, translation[slice(*span)])):
            continue
        count += 1
        if severity := next((severity for severity, limit in _LOG_PROBS.items() if log_prob < limit), None):
            told = f"The model gives this word a probability of 1 in {math.exp(-log_prob):,.0f}."
            source = _spans(text, [read[index] for index in decoded.aligned[first:end]], part.source_start)
            found.append(("Mistranslation", severity, told, source, _spans(translation, [span], part.target_start)))
    if missed := find_untranslated_words(scored.candidate):
        told = untranslated_warning([word[0] for word in missed])
        found.append(("Omission", "Major", told, _spans(text, [w.span() for w in missed], part.source_start), []))
    return [dict(zip(_FIELDS, ("Accuracy", *error), strict=True)) for error in found], count


def _spans(text: str, spans: Iterable[tuple[int, int]], offset: int) -> list[dict[str, int]]:
    """The spans in order and `offset` later, without the white space before each."""
    return [
        {"start": offset + end - len(text[start:end].lstrip()), "end": offset + end}
        for start, end in sorted(set(spans))
        if text[start:end].strip()
    ]
