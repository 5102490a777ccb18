"""Translates sentences with the batched decoder, greedily or with a beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.decoding import beam_decode
from model.decoding.batch import Backend
from model.directions import Direction
from model.hypothesis import Limits
from model.tokenizer import Tokenizers
from model.transformer import Transformer

ROWS = {"cpu": 64, "cuda": 512}
"""Hypotheses decoded together, by device."""


@dataclass(frozen=True)
class Translations:
    """The results of `translate`; for `cut` sentences only the first `max_source` tokens were translated."""

    texts: list[str]
    ids: list[list[int]]
    """Target tokens without the direction's prefix, ending in `</s>` unless a limit ended them."""
    cut: int


def translate(
    model: Backend | Transformer,
    tokenizers: Tokenizers,
    limits: Limits,
    sentences: Sequence[str],
    rows: int | None = None,
    beam_size: int = 1,
    direction: Direction | None = None,
    length_penalty: float = 1.0,
    narrowing: bool = False,
) -> Translations:
    """Translates every sentence by beam search, within `rows` hypotheses in total; 1 is greedy.

    Sentences over the model's limit are cut, and counted. Without `rows`, as many as suit the device (ROWS).
    `direction`: of a model of several. `length_penalty`: see `Hypothesis.ranking_score`; `narrowing`: see `Beam`.
    """
    if isinstance(model, Transformer):
        model.eval()
    device = model.target_embedding.tokens.weight.device.type if isinstance(model, Transformer) else model.device
    rows = rows or max(ROWS[device], beam_size)
    encoded = [tokenizers.source.encode_source(sentence) for sentence in sentences]
    source_prefix, target_prefix = direction.prefixes if direction else ((), ())
    longest = limits.max_source - len(source_prefix)
    cut = sum(len(ids) > longest for ids in encoded)
    sources = [[*source_prefix, *ids[:longest]] for ids in encoded]
    found = beam_decode(model, sources, limits, beam_size, rows, target_prefix, length_penalty, narrowing)
    targets = [hypothesis.tokens[len(target_prefix) :] for hypothesis in found]
    return Translations(list(map(tokenizers.target.decode, targets)), targets, cut)
