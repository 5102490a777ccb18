"""POST /translate."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from app import errors
from app.body import JSONRoute, while_connected
from app.schemas import TranslateRequest, TranslateResponse
from app.translator import Translated, Translator

router = APIRouter(route_class=JSONRoute)
FAILURES = (
    errors.NotJSON,
    errors.PairNotServed,
    errors.BodyTooSlow,
    errors.TooMuchText,
    errors.WrongContentType,
    errors.InvalidFields,
    errors.StepFailed,
    errors.Unavailable,
    errors.Overloaded,
    errors.DeadlinePassed,
)


@router.post(
    "/translate",
    summary="Translate texts",
    response_model=TranslateResponse,
    responses=errors.documented(*FAILURES),
    tags=["translation"],
)
async def translate(body: TranslateRequest, request: Request) -> Response:
    """Translates texts. Sentences are translated one by one; the white space between them stays as it is."""
    translator: Translator = request.state.translator
    texts = [body.text] if isinstance(body.text, str) else body.text
    work = translator.translate(texts, body.source, body.target, body.deadline_ms)
    done = await while_connected(request, work)
    # In the shape of a TranslateResponse, but not made as one: validating our own words is 5 % of a short request.
    answer = {
        "translations": [_translation(item, body.source) for item in done.items],
        "model": done.model,
        "usage": {"source_tokens": done.source_tokens, "target_tokens": done.target_tokens},
    }
    return Response(to_json(answer, inf_nan_mode="null"), media_type="application/json")


def _translation(item: Translated, source: str) -> dict[str, object]:
    return {
        "text": item.text,
        "source": source,
        "score": item.score,
        "finish_reason": item.finish_reason,
        "warnings": item.warnings,
        "alternatives": [],
        "alignment": None,
        "error": item.error.problem() if item.error else None,
    }
