"""Converts a sequence to the decoder's hypothesis, and a finished hypothesis to a result. For workers."""

from __future__ import annotations

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from app.engine.sequence import Attention, Decoded, Sequence, Weights
from model.hypothesis import Hypothesis


def hypothesis_of(sequence: Sequence, beam_size: int) -> Hypothesis:
    """A hypothesis to decode with a beam of `beam_size`."""
    forced = None if sequence.forced is None else list(sequence.forced)
    constraints = sequence.required, sequence.forbidden, beam_size, sequence.prefix
    return Hypothesis(list(sequence.source), sequence.limit, forced, sequence.attention, *constraints)


def decoded_of(h: Hypothesis) -> Decoded:
    """The result of a finished hypothesis, with its whole beam and its attention."""
    attention = None
    if h.record:
        assert h.encoder_attention is not None
        attention = Attention(*map(_weights, (h.encoder_attention, h.decoder_attention, h.cross_attention)))
    best, *others = [_decoded(found) for found in h.finished or (h,)]
    return structs.replace(best, alternatives=tuple(others), attention=attention) if others or attention else best


def _decoded(h: Hypothesis) -> Decoded:
    assert h.finish_reason
    return Decoded(tuple(h.tokens), tuple(h.log_probs), h.finish_reason, tuple(h.aligned), tuple(h.coverage))


def _weights(array: NDArray[np.float32]) -> Weights:
    return Weights(array.shape, array.dtype.name, array.tobytes())
