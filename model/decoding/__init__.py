"""Greedy and beam decoding of sentences, by PyTorch or by any other runner.

Knows token ids only. The batch is `model.decoding.batch`'s; text is `model.tokenizer`'s; other runners are
`model.backends`'s to choose.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.decoding.batch import Batch, Runner
from model.decoding.torch_backend import TorchRunner, TorchSlots, decode_step, encode_batch
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer

__all__ = [
    "TorchRunner",
    "TorchSlots",
    "as_runner",
    "beam_decode",
    "decode_in",
    "decode_step",
    "encode_batch",
    "greedy_decode",
]


def as_runner(model: Runner | Transformer) -> Runner:
    """A Transformer becomes the runner that computes with it as it is."""
    return TorchRunner(model) if isinstance(model, Transformer) else model


def greedy_decode(
    model: Runner | Transformer, sources: Sequence[Sequence[int]], limits: Limits, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source, at most `rows` at a time; in order. Raises ValueError as `beam_decode` does."""
    return beam_decode(model, sources, limits, 1, rows)


def beam_decode(
    model: Runner | Transformer, sources: Sequence[Sequence[int]], limits: Limits, width: int, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source with a beam of `width`, the longest first, each leaving when it ends; in order.

    A sentence takes `width` of the `rows`; with a width of 1 its best token is always taken. Raises ValueError if a
    source is over `limits.max_source` tokens, or there are fewer rows than the beam needs.
    """
    if not 1 <= width <= rows:
        raise ValueError(f"a beam must be from 1 to the number of rows ({rows}) wide, not {width}")
    for number, source in enumerate(sources):
        if len(source) > limits.max_source:
            raise ValueError(f"source {number} has {len(source)} tokens, over the limit of {limits.max_source}")
    hypotheses = [Hypothesis(source, limits.target(len(source)), width=width) for source in sources]
    batch = as_runner(model).new_batch(min(rows, width * max(1, len(hypotheses))), limits)
    decode_in(batch, hypotheses)
    return hypotheses


def decode_in(batch: Batch, hypotheses: Sequence[Hypothesis]) -> None:
    """Decodes `hypotheses`, whose beams are equally wide, in a batch that is empty: the longest first."""
    waiting = sorted(hypotheses, key=lambda h: len(h.source))
    while waiting or batch.running:
        # A refill smaller than a quarter of the rows would encode in batches too small to be worth it.
        if waiting and (batch.free >= max(width := waiting[-1].width, batch.rows // 4) or not batch.running):
            batch.admit([waiting.pop() for _ in range(min(batch.free // width, len(waiting)))])
        batch.step()
