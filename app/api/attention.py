"""POST /attention."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api.json_routes import JSONRoute
from app.api.openapi_parts import error_responses
from app.api.schemas.attention import AttentionRequest, AttentionResponse, AttentionView
from app.api.state import app_of, translator_of
from app.api.translate import ERRORS
from app.http.held_bytes import reserve
from app.http.json_body import while_connected
from app.server.state import state_of
from app.translation.attention import Attention, Kind, Selection, attend
from app.translation.attention_svg import draw
from model.tokenizer import Piece

router = APIRouter(route_class=JSONRoute)
_SVG = "image/svg+xml"
_SVG_HEADERS = {
    # Opened directly in a browser, the picture runs and fetches nothing: its pixels are inline.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
    "X-Content-Type-Options": "nosniff",
}
_RESPONSE: dict[str, Any] = {
    "description": "Depending on `as`: an AttentionResponse, a list of AttentionView, or an SVG picture",
    "content": {
        _SVG: {"schema": {"type": "string"}, "example": '<svg xmlns="http://www.w3.org/2000/svg" ...>...</svg>'}
    },
}


@router.post(
    "/attention",
    summary="Translate a sentence and show its attention",
    response_model=AttentionResponse | list[AttentionView],
    responses={200: _RESPONSE, **error_responses(*ERRORS)},
    tags=["translation"],
)
async def attention(body: AttentionRequest, request: Request) -> Response:
    """Translate one sentence and return every attention weight of that decoding pass."""
    translator = translator_of(request)
    texts = [body.text, body.target_text or ""]
    for text in texts:
        translator.check_length(len(text))
    client = state_of(request).admitted
    await client.charge(translator.cost(texts))
    selection = Selection(body.kinds, body.layers, body.heads)
    work = attend(translator, body.source, body.target, body.text, body.target_text, selection, client.scheduled_as)
    result = await while_connected(request, work)
    if body.form == "svg":
        return Response(await asyncio.to_thread(draw, result, selection), media_type=_SVG, headers=_SVG_HEADERS)
    # The weights are held until the last of them has been sent.
    size = sum(weights.nbytes for weights in result.weights.values())
    reserve(request.scope, app_of(request).budgets.responses).grow(size)
    return _StreamedWeights(result, _bertviz_pieces(result) if body.form == "bertviz" else _json_pieces(result))


class _StreamedWeights(StreamingResponse):
    """Iterates over the weights of `result` as pieces of JSON, and drops them at the end.

    When a client disconnects, the frames of the cancelled task refer to each other until Python next collects garbage,
    and keep the iterator alive: without this the weights would stay in memory after their bytes are returned to the
    budget.
    """

    def __init__(self, result: Attention, pieces: Iterator[str]) -> None:
        super().__init__(pieces, media_type="application/json")
        self._weights = result.weights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._weights.clear()


def _json_pieces(result: Attention) -> Iterator[str]:
    """Yields an AttentionResponse in pieces, since the weights of a long sentence are tens of megabytes."""
    fields = {
        "translation": result.translation,
        "source_tokens": [_token(piece) for piece in result.source_tokens],
        "target_tokens": [_token(piece) for piece in result.target_tokens],
        "alignment": result.alignment,
        "start": result.start,
        "model": result.bundle.name,
    }
    yield json.dumps(fields).removesuffix("}") + ', "attention": {'
    for number, kind in enumerate(list(result.weights)):
        yield f'{", " if number else ""}"{kind}": '
        yield from _weights_json(result, kind)
    yield "}}"


def _bertviz_pieces(result: Attention) -> Iterator[str]:
    """Yields a list of AttentionView, also in pieces, of the kinds that the model has."""
    yield "["
    for number, kind in enumerate([kind for kind, weights in result.weights.items() if len(weights)]):
        queries, keys = result.axes(kind)
        fields = {"name": kind.capitalize(), "left_text": queries, "right_text": keys}
        yield ("," if number else "") + json.dumps(fields).removesuffix("}") + ', "attn": '
        yield from _weights_json(result, kind)
        yield "}"
    yield "]"


def _weights_json(result: Attention, kind: Kind) -> Iterator[str]:
    """Yields [layer, head, query, key] as JSON, one head at a time. Holds no weights between two pieces."""
    layers, heads = result.weights[kind].shape[:2]
    yield "["
    for layer in range(layers):
        yield ", [" if layer else "["
        for head in range(heads):
            yield (", " if head else "") + json.dumps(result.weights[kind][layer, head].tolist())
        yield "]"
    yield "]"


def _token(piece: Piece) -> dict[str, object]:
    return {"piece": piece.piece, "start": piece.start, "end": piece.end}
