"""POST /attention."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from torch import Tensor

from app import errors
from app.attention import Attention, Selection, attend
from app.body import JSONRoute, while_connected
from app.routes.translate import FAILURES
from app.schemas import AttentionRequest, AttentionResponse
from app.translator import Translator
from model.tokenizer import Piece

router = APIRouter(route_class=JSONRoute)


@router.post(
    "/attention",
    summary="Translate a sentence and show its attention",
    response_model=AttentionResponse,
    responses=errors.documented(*FAILURES),
    tags=["translation"],
)
async def attention(body: AttentionRequest, request: Request) -> StreamingResponse:
    """Translates one sentence and shows every attention weight of the pass that did it."""
    translator: Translator = request.state.translator
    selection = Selection(body.kinds, body.layers, body.heads)
    work = attend(translator, body.source, body.target, body.text, body.target_text, selection)
    return StreamingResponse(_written(await while_connected(request, work)), media_type="application/json")


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
