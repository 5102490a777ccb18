"""Converts a sequence to the decoder's hypothesis, and a finished hypothesis to a result. For workers."""

from __future__ import annotations

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from app.engine.sequence import Attention, Decoded, Sequence, Weights
from model.hypothesis import Hypothesis


def hypothesis_of(sequence: Sequence, beam_size: int) -> Hypothesis:
    """A hypothesis to decode with a beam of `beam_size`."""
    source_prefix, target_prefix = sequence.source_prefix, sequence.target_prefix
    return Hypothesis(
        [*source_prefix, *sequence.source],
        len(target_prefix) + sequence.limit,
        None if sequence.forced is None else [*target_prefix, *sequence.forced],
        sequence.attention,
        sequence.required,
        sequence.forbidden,
        beam_size,
        (*target_prefix, *sequence.prefix),
        len(source_prefix),
        len(target_prefix),
        sequence.length_penalty,
        sequence.narrowing,
        sequence.spelling,
    )


def decoded_of(h: Hypothesis) -> Decoded:
    """The result of a finished hypothesis, with its whole beam and its attention."""
    attention = None
    if h.record:
        assert h.encoder_attention is not None
        attention = Attention(*map(_weights, (h.encoder_attention, h.decoder_attention, h.cross_attention)))
    best, *others = [_decoded(found) for found in h.finished or (h,)]
    return structs.replace(best, alternatives=tuple(others), attention=attention) if others or attention else best


def _decoded(h: Hypothesis) -> Decoded:
    """The result without prefixes. A token that is aligned to one counts as aligned to the first token of the text."""
    assert h.finish_reason
    source, target = h.source_prefix_length, h.target_prefix_length
    aligned = tuple([max(0, place - source) for place in h.aligned[target:]]) if source else tuple(h.aligned[target:])
    return Decoded(
        tuple(h.tokens[target:]), tuple(h.log_probs[target:]), h.finish_reason, aligned, tuple(h.coverage[source:])
    )


def _weights(array: NDArray[np.float32]) -> Weights:
    return Weights(array.shape, array.dtype.name, array.tobytes())
