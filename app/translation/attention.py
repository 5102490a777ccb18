"""Decodes one sentence and returns its attention weights, with its tokens and their alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from app.engine import sequence as engine
from app.errors import FieldFault, InvalidFields
from app.runtime import event_loop
from app.translation.planner import check_tokens
from app.translation.sentence import make_sequence
from app.translation.translator import Translator
from app.translation.unknown_tokens import copied_text, has_unknowns, target_texts
from model.bundle import Bundle
from model.config import ModelConfig
from model.tokenizer import SPACE, Piece, Tokenizer

Kind = Literal["encoder", "decoder", "cross"]
Weights = NDArray[np.floating]
"""[layer, head, query, key]"""
END = "</s>"
ZEROS = "<s>"
"""The name of a start that is a vector of zeros, and no token."""


@dataclass(frozen=True)
class Attention:
    """A decoded sentence with its attention weights.

    Offsets of source tokens are code points of `text`, those of target tokens of `translation`. Both sides have the
    tokens of the direction, which cover none: the weights are those of the model, which attends to them.
    """

    bundle: Bundle
    text: str
    translation: str
    source_tokens: list[Piece]
    target_tokens: list[Piece]
    weights: dict[Kind, Weights]
    alignment: list[tuple[int, int]]

    def axes(self, kind: Kind) -> tuple[list[str], list[str]]:
        """The tokens of the queries and of the keys of a kind's weights."""
        source = [token.piece for token in self.source_tokens]
        target = [token.piece for token in self.target_tokens]
        if kind == "encoder":
            return source, source
        return target, source if kind == "cross" else [self.start, *target[:-1]]

    @property
    def start(self) -> str:
        """The token that the decoder starts from, which is its first key."""
        config = self.bundle.architecture
        return ZEROS if config.zero_start else self.bundle.target_tokenizer.piece(config.bos_id)


@dataclass(frozen=True)
class Selection:
    """Which weights to return; None means all."""

    kinds: Sequence[Kind]
    layers: Sequence[int] | None = None
    heads: Sequence[int] | None = None

    def check(self, config: ModelConfig) -> None:
        """Raises InvalidFields, with the index's pointer, if the model has no such layer or head."""
        depths = {"encoder": config.encoder_layers, "decoder": config.decoder_layers, "cross": config.decoder_layers}
        depth = min(depths[kind] for kind in self.kinds)
        faults = [*_beyond("layer", self.layers, depth), *_beyond("head", self.heads, config.num_heads)]
        if faults:
            raise InvalidFields.of(faults)

    def of(self, weights: Weights) -> Weights:
        """The selected layers and heads; a recurrent decoder has no layers to select from."""
        weights = weights if self.layers is None or not len(weights) else weights[list(self.layers)]
        return weights if self.heads is None else weights[:, list(self.heads)]


async def attend(
    translator: Translator,
    source: str,
    target: str,
    text: str,
    target_text: str | None,
    selection: Selection,
    client: str = "",
) -> Attention:
    """Translates `text`, without surrounding white space, as one sentence, and records its attention.

    `target_text` forces the translation. Raises InvalidFields, TooMuchText if there are more tokens than the model
    accepts, and the errors of `Translator.translate`.
    """
    bundle = translator.catalogue.find(source, target)
    selection.check(bundle.architecture)
    pieces, sequence = await event_loop.run(len(text), _prepare, bundle, text, target_text)
    decoded = await translator.decode_one(sequence, client)
    return await event_loop.run(len(text), _read, bundle, decoded, text, pieces, selection)


def _prepare(bundle: Bundle, text: str, target_text: str | None) -> tuple[list[Piece], engine.Sequence]:
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    # Counts first: pieces take a hundred times as long.
    check_tokens("text", len(bundle.source_tokenizer.encode_source(text[start:end])), bundle.limits.max_source)
    pieces = bundle.source_tokenizer.source_pieces(text[start:end])
    if not pieces:
        raise InvalidFields.at("#/text", "holds no sentence")
    ids, limit, forced = tuple(piece.id for piece in pieces), bundle.limits.target(len(pieces)), None
    if target_text is not None:
        target_text = target_text.strip()
        check_tokens("target_text", len(bundle.target_tokenizer.encode(target_text)), bundle.limits.max_target)
        target = bundle.target_tokenizer.pieces(target_text)
        forced, limit = tuple(piece.id for piece in target), len(target)
    placed = [Piece(piece.id, piece.piece, start + piece.start, start + piece.end) for piece in pieces]
    sequence = make_sequence(bundle, ids, limit, forced=forced, attention=True)
    ends = bundle.architecture.source_ends(len(pieces))
    prefix = _prefix(bundle.source_tokenizer, bundle.direction.source_prefix, start)
    return [*prefix, *placed, *[Piece(bundle.source_tokenizer.eos_id, END, end, end)] * ends], sequence


def _prefix(tokenizer: Tokenizer, ids: Sequence[int], at: int) -> list[Piece]:
    """The tokens that say which direction is translated; they cover no character."""
    return [Piece(id, tokenizer.piece(id), at, at) for id in ids]


def _read(
    bundle: Bundle, decoded: engine.Decoded, text: str, source_tokens: list[Piece], selection: Selection
) -> Attention:
    assert decoded.attention is not None
    recorded = map(_array, structs.astuple(decoded.attention))
    weights: dict[Kind, Weights] = dict(zip(get_args(Kind), recorded, strict=True))
    tokenizer, direction = bundle.target_tokenizer, bundle.direction
    target_prefix = _prefix(tokenizer, direction.target_prefix, 0)
    begins = len(direction.source_prefix), len(target_prefix)
    texts = target_texts(decoded, bundle, lambda: [copied_text(piece, text) for piece in source_tokens[begins[0] :]])
    translation = tokenizer.decode(decoded.tokens)
    if has_unknowns(decoded, bundle):
        translation = "".join(texts).removeprefix(SPACE)
    return Attention(
        bundle=bundle,
        text=text,
        translation=translation,
        source_tokens=source_tokens,
        target_tokens=[*target_prefix, *_spelt(tokenizer, decoded.tokens, texts, translation)],
        weights={kind: selection.of(weights[kind]) for kind in selection.kinds},
        alignment=[(begins[0] + source, begins[1] + target) for target, source in enumerate(decoded.aligned)],
    )


def _array(weights: engine.Weights) -> Weights:
    return np.frombuffer(weights.content, weights.dtype).reshape(weights.shape)


def _spelt(tokenizer: Tokenizer, tokens: Sequence[int], texts: Sequence[str], translation: str) -> list[Piece]:
    """The generated tokens with the code points of `translation` that each adds, as `texts`."""
    begun = len("".join(texts)) - len(translation)  # the space before the first word is not in the translation
    ends = [max(0, end - begun) for end in accumulate(map(len, texts))]
    return [
        Piece(token, END if token == tokenizer.eos_id else tokenizer.piece(token), start, end)
        for token, start, end in zip(tokens, [0, *ends], ends, strict=False)
    ]


def _beyond(name: str, indices: Sequence[int] | None, count: int) -> list[FieldFault]:
    return [
        FieldFault(pointer=f"#/{name}s/{place}", detail=f"no {name} {index}; this model has {count}")
        for place, index in enumerate(indices or [])
        if index >= count
    ]
