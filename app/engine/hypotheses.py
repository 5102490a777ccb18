"""A sequence as the decoder has it on its way, and a hypothesis that it has finished as what came of the sequence."""

from __future__ import annotations

import ctypes
from array import array
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from app.engine.sequence import Attention, Decoded, Sequence, Weights
from model.hypothesis import Hypothesis

if TYPE_CHECKING:  # the front does without PyTorch
    from torch import Tensor


def hypothesis_of(sequence: Sequence, width: int) -> Hypothesis:
    """To be decoded with a beam so wide."""
    forced = None if sequence.forced is None else list(sequence.forced)
    constraints = sequence.required, sequence.forbidden, width, sequence.prefix
    return Hypothesis(list(sequence.source), sequence.limit, forced, sequence.attention, *constraints)


def decoded_of(h: Hypothesis) -> Decoded:
    """What a finished hypothesis came to, with all of its beam and its attention."""
    attention = None
    if h.record:
        assert h.encoder_attention is not None
        attention = Attention(*map(_weights, (h.encoder_attention, h.decoder_attention, h.cross_attention)))
    best, *others = [_decoded(found) for found in h.finished or (h,)]
    return structs.replace(best, alternatives=tuple(others), attention=attention) if others or attention else best


def _decoded(h: Hypothesis) -> Decoded:
    assert h.finish_reason
    return Decoded(tuple(h.tokens), tuple(h.log_probs), h.finish_reason, tuple(h.aligned), tuple(h.looked))


def _weights(tensor: Tensor) -> Weights:
    """NumPy, through which PyTorch would give its bytes, is not there in the container."""
    tensor = tensor.cpu().contiguous()
    content = ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    return Weights(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), content)


def sequence_of(model: str, h: Hypothesis) -> Sequence:
    """All that a worker is told of `h`, which the bundle of this name is to decode."""
    forced = None if h.forced is None else tuple(h.forced)
    constraints = tuple(h.once), tuple(h.never), h.width, tuple(h.prefix)
    return Sequence(model, tuple(h.source), h.limit, forced, *constraints, h.record)


def become(h: Hypothesis, decoded: Decoded) -> None:
    """Makes of `h`, which has only wishes, what one with the same wishes was decoded to."""
    _become(h, decoded)
    if h.width > 1:
        h.finished = [h, *(_become(h.started_again(), other) for other in decoded.alternatives)]
    if decoded.attention:
        h.attention = tuple(map(_array, structs.astuple(decoded.attention)))


def _become(h: Hypothesis, decoded: Decoded) -> Hypothesis:
    h.tokens, h.log_probs, h.finish_reason = list(decoded.tokens), list(decoded.log_probs), decoded.finish_reason
    h.aligned, h.looked = array("i", decoded.aligned), array("f", decoded.coverage)
    return h


def _array(weights: Weights) -> NDArray[np.floating]:
    return np.frombuffer(weights.content, weights.dtype).reshape(weights.shape)
