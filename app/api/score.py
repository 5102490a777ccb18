"""POST /score."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from app.api.json_routes import JSONRoute
from app.api.openapi_parts import error_responses
from app.api.schemas.score import ScoreRequest, ScoreResponse
from app.api.state import translator_of
from app.api.translate import ERRORS
from app.errors import ServiceError
from app.http.json_body import while_connected
from app.http.problems import problem_of
from app.server.state import state_of
from app.translation.scoring import GivenPair, ScoredPair, score_pairs

router = APIRouter(route_class=JSONRoute)


@router.post(
    "/score",
    summary="Score translations",
    response_model=ScoreResponse,
    responses=error_responses(*ERRORS),
    tags=["translation"],
)
async def score(body: ScoreRequest, request: Request) -> Response:
    """Score given translations: the log probability that the model gives to each token, without translating."""
    translator = translator_of(request)
    given = body.pairs if isinstance(body.pairs, list) else [body.pairs]
    translator.check_count(len(given))
    pairs = [GivenPair(pair.text, pair.translation) for pair in given]
    state = state_of(request)
    await state.admitted.charge(translator.cost([text for pair in pairs for text in pair]))
    limits = body.deadline_ms, state.waited_s, state.admitted.scheduled_as
    done = await while_connected(request, score_pairs(translator, pairs, body.source, body.target, *limits))
    fields = {
        "scores": [_fields(pair) for pair in done.pairs],
        "model": done.model,
        "usage": {"source_tokens": done.source_tokens, "target_tokens": done.target_tokens},
    }
    return Response(to_json(fields, inf_nan_mode="null"), media_type="application/json")


def _fields(pair: ScoredPair | ServiceError) -> dict[str, object]:
    """The fields of a PairScore."""
    if isinstance(pair, ServiceError):
        return {"score": None, "log_prob": None, "quality": None, "tokens": [], "error": problem_of(pair)}
    tokens = [
        {"piece": token.piece, "start": token.start, "end": token.end, "log_prob": log_prob}
        for token, log_prob in zip(pair.tokens, pair.decoded.log_probs, strict=False)
    ]
    scores = {"score": pair.score, "log_prob": pair.log_prob, "quality": pair.quality}
    return {**scores, "tokens": tokens, "error": None}
