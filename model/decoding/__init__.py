"""Greedy and beam decoding of token ids, with any backend.

The batch is in `model.decoding.batch`, beam search in `model.decoding.beam`, the PyTorch backend in
`model.decoding.torch_backend`. `model.backends` chooses a backend; `model.tokenizer` converts text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from model.decoding.batch import Backend, Batch
from model.hypothesis import Hypothesis, Limits

if TYPE_CHECKING:
    from model.transformer import Transformer

_STEPS = 16
"""Decoder steps in a call, where the batch takes several at once."""


def as_backend(model: Backend | Transformer) -> Backend:
    """Wraps a Transformer in a TorchBackend at the precision of its weights; returns a backend unchanged."""
    from model.decoding.torch_backend import TorchBackend  # here, since an int8 worker does without PyTorch
    from model.transformer import Transformer

    return TorchBackend(model) if isinstance(model, Transformer) else model


def greedy_decode(
    model: Backend | Transformer, sources: Sequence[Sequence[int]], limits: Limits, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source greedily, at most `rows` at a time. Returns and raises what `beam_decode` does."""
    return beam_decode(model, sources, limits, 1, rows)


def beam_decode(
    model: Backend | Transformer,
    sources: Sequence[Sequence[int]],
    limits: Limits,
    beam_size: int,
    rows: int = 64,
    target_prefix: Sequence[int] = (),
    length_penalty: float = 1.0,
    narrowing: bool = False,
) -> list[Hypothesis]:
    """Decodes every source by beam search; a `beam_size` of 1 is greedy. Results are in the order of `sources`. All
    targets begin with `target_prefix`. `length_penalty`: see `Hypothesis.ranking_score`; `narrowing`: see `Beam`.

    A sentence takes `beam_size` of the `rows`. The longest sources start first, and others join as rows become free.
    Raises ValueError if a source has more than `limits.max_source` tokens, or `beam_size` is not from 1 to `rows`.
    """
    if not 1 <= beam_size <= rows:
        raise ValueError(f"the beam size must be from 1 to the number of rows ({rows}), not {beam_size}")
    for number, source in enumerate(sources):
        if len(source) > limits.max_source:
            raise ValueError(f"source {number} has {len(source)} tokens, over the limit of {limits.max_source}")
    hypotheses = [
        Hypothesis(
            source,
            limits.target(len(source), len(target_prefix)),
            beam_size=beam_size,
            prefix=tuple(target_prefix),
            length_penalty=length_penalty,
            narrowing=narrowing,
            target_prefix_length=len(target_prefix),
        )
        for source in sources
    ]
    batch = as_backend(model).new_batch(min(rows, beam_size * max(1, len(hypotheses))), limits)
    decode_all(batch, hypotheses)
    return hypotheses


def decode_all(batch: Batch, hypotheses: Sequence[Hypothesis]) -> None:
    """Decodes `hypotheses`, all of one beam size, in an empty batch, longest first."""
    waiting = sorted(hypotheses, key=lambda h: len(h.source))
    while waiting or batch.running:
        # Waits until a quarter of the rows is free: encoding is inefficient in smaller batches.
        wanted = max(waiting[-1].beam_size, batch.rows // 4) if waiting else 0
        if waiting and (batch.free >= wanted or not batch.running):
            count = min(batch.free // waiting[-1].beam_size, len(waiting))
            batch.admit([waiting.pop() for _ in range(count)])
        batch.step(_STEPS, max(1, wanted - batch.free) if waiting else 0)
