"""POST /attention."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from torch import Tensor

from app.attention import Attention, Selection, attend
from app.body import JSONRoute, while_connected
from app.door import Client
from app.manual_parts import documented
from app.pictures import draw
from app.routes.translate import FAILURES
from app.schemas import AttentionRequest, AttentionResponse, AttentionView
from app.translator import Translator
from model.tokenizer import Piece

router = APIRouter(route_class=JSONRoute)
_SVG = "image/svg+xml"
_SAFE = {
    # Shown by a browser as it is, the picture runs nothing and fetches nothing: its pixels are in it.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
    "X-Content-Type-Options": "nosniff",
}
_ANSWER: dict[str, Any] = {
    "description": "As `as` says: an AttentionResponse, a list of AttentionView, or a picture",
    "content": {
        _SVG: {"schema": {"type": "string"}, "example": '<svg xmlns="http://www.w3.org/2000/svg" ...>...</svg>'}
    },
}


@router.post(
    "/attention",
    summary="Translate a sentence and show its attention",
    response_model=AttentionResponse | list[AttentionView],
    responses={200: _ANSWER, **documented(*FAILURES)},
    tags=["translation"],
)
async def attention(body: AttentionRequest, request: Request) -> Response:
    """Translates one sentence and shows every attention weight of the pass that did it."""
    translator: Translator = request.state.translator
    client: Client = request.state.client
    texts = [body.text, body.target_text or ""]
    for text in texts:
        translator.check_length(len(text))
    client.charge(translator.cost(texts))
    selection = Selection(body.kinds, body.layers, body.heads)
    work = attend(translator, body.source, body.target, body.text, body.target_text, selection)
    shown = await while_connected(request, work)
    if body.form == "svg":
        return Response(await asyncio.to_thread(draw, shown, selection), media_type=_SVG, headers=_SAFE)
    written = _views(shown) if body.form == "bertviz" else _written(shown)
    return StreamingResponse(written, media_type="application/json")


def _written(shown: Attention) -> Iterator[str]:
    """An AttentionResponse in pieces, since the weights of a long sentence are tens of megabytes."""
    fields = {
        "translation": shown.translation,
        "source_tokens": [_token(piece) for piece in shown.source_tokens],
        "target_tokens": [_token(piece) for piece in shown.target_tokens],
        "alignment": shown.alignment,
        "model": shown.bundle.name,
    }
    yield json.dumps(fields).removesuffix("}") + ', "attention": {'
    for number, (kind, weights) in enumerate(shown.weights.items()):
        yield f'{", " if number else ""}"{kind}": '
        yield from _nested(weights)
    yield "}}"


def _views(shown: Attention) -> Iterator[str]:
    """A list of AttentionView, in pieces likewise."""
    for number, (kind, weights) in enumerate(shown.weights.items()):
        queries, keys = shown.axes(kind)
        fields = {"name": kind.capitalize(), "left_text": queries, "right_text": keys}
        yield ("," if number else "[") + json.dumps(fields).removesuffix("}") + ', "attn": '
        yield from _nested(weights)
        yield "}"
    yield "]"


def _nested(weights: Tensor) -> Iterator[str]:
    """[layer, head, query, key] as JSON, a head at a time."""
    for layer_number, layer in enumerate(weights):
        yield ", [" if layer_number else "[["
        for head_number, head in enumerate(layer):
            yield (", " if head_number else "") + json.dumps(head.tolist())
        yield "]"
    yield "]"


def _token(piece: Piece) -> dict[str, object]:
    return {"piece": piece.piece, "start": piece.start, "end": piece.end}
