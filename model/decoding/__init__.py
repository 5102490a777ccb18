"""Greedy and beam decoding of token ids, with PyTorch or any other backend.

The batch is in `model.decoding.batch`, text in `model.tokenizer`; `model.backends` chooses among backends.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.decoding.batch import Backend, Batch
from model.decoding.torch_backend import TorchBackend, TorchDecoderState, decode_step, encode_batch
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer

__all__ = [
    "TorchBackend",
    "TorchDecoderState",
    "as_backend",
    "beam_decode",
    "decode_in",
    "decode_step",
    "encode_batch",
    "greedy_decode",
]


def as_backend(model: Backend | Transformer) -> Backend:
    """Wraps a Transformer in a backend at its own precision."""
    return TorchBackend(model) if isinstance(model, Transformer) else model


def greedy_decode(
    model: Backend | Transformer, sources: Sequence[Sequence[int]], limits: Limits, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source, at most `rows` at a time; in order. Raises ValueError as `beam_decode` does."""
    return beam_decode(model, sources, limits, 1, rows)


def beam_decode(
    model: Backend | Transformer, sources: Sequence[Sequence[int]], limits: Limits, beam_size: int, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source by beam search, in the order of `sources`; a `beam_size` of 1 is greedy.

    A sentence takes `beam_size` of the `rows`. The longest sources start first, and others join as rows become free.
    Raises ValueError if a source has more than `limits.max_source` tokens, or the beam needs more than `rows`.
    """
    if not 1 <= beam_size <= rows:
        raise ValueError(f"the beam size must be from 1 to the number of rows ({rows}), not {beam_size}")
    for number, source in enumerate(sources):
        if len(source) > limits.max_source:
            raise ValueError(f"source {number} has {len(source)} tokens, over the limit of {limits.max_source}")
    hypotheses = [Hypothesis(source, limits.target(len(source)), beam_size=beam_size) for source in sources]
    batch = as_backend(model).new_batch(min(rows, beam_size * max(1, len(hypotheses))), limits)
    decode_in(batch, hypotheses)
    return hypotheses


def decode_in(batch: Batch, hypotheses: Sequence[Hypothesis]) -> None:
    """Decodes `hypotheses`, which have equal beam sizes, in an empty batch, longest first."""
    waiting = sorted(hypotheses, key=lambda h: len(h.source))
    while waiting or batch.running:
        # Refilling fewer than a quarter of the rows would encode batches too small to be efficient.
        if waiting and (batch.free >= max(beam_size := waiting[-1].beam_size, batch.rows // 4) or not batch.running):
            batch.admit([waiting.pop() for _ in range(min(batch.free // beam_size, len(waiting)))])
        batch.step()
