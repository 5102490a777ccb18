"""The engine's input, `Sequence`, and its output, `Decoded`: frozen values of token ids, compared by value.

`app.engine.messages` carries them to a worker and back unchanged.
"""

from __future__ import annotations

import math

from msgspec import Struct

from model.hypothesis import FinishReason
from model.spelling import Spelling


class Sequence(Struct, frozen=True, array_like=True, gc=False):
    """A source sentence and everything that affects its translation: equal sequences have equal results, bit for bit.

    `model` is the name of a `ModelSpec`, which includes its checksum. `source` has no end symbol. The other fields are
    those of `model.hypothesis.Hypothesis`. The prefixes say which direction of the model translates; the other
    fields and the result are without them. `app.engine.hypotheses` adds and removes them.
    """

    model: str
    source: tuple[int, ...]
    limit: int
    """Maximum number of target tokens, without the end symbol."""
    forced: tuple[int, ...] | None = None
    """The target to score, instead of the model's choice (forced decoding)."""
    required: tuple[int, ...] = ()
    """Tokens that must each occur exactly once in the target."""
    forbidden: tuple[int, ...] = ()
    beam_size: int = 1
    prefix: tuple[int, ...] = ()
    """The first target tokens."""
    attention: bool = False
    """Whether to record the attention weights."""
    source_prefix: tuple[int, ...] = ()
    """What the encoder reads before `source`; see `model.directions`."""
    target_prefix: tuple[int, ...] = ()
    """What the decoder generates before the translation."""
    length_penalty: float = 1.0
    narrowing: bool = False
    """See `Hypothesis.narrowing`."""
    spelling: Spelling = ()
    """See `Hypothesis.spelling`."""


class Weights(Struct, frozen=True, array_like=True, gc=False):
    """A tensor: shape, PyTorch's name of the type, and bytes in C order."""

    shape: tuple[int, ...]
    dtype: str
    content: bytes


class Attention(Struct, frozen=True, array_like=True):
    """The attention weights of the pass that produced the tokens, prefixes included."""

    encoder: Weights
    """[layer, head, source, source], with the end symbol."""
    decoder: Weights
    """[layer, head, target, target], lower triangular: the keys are the preceding tokens, `<s>` first."""
    cross: Weights
    """[layer, head, target, source], with the end symbols."""


class Decoded(Struct, frozen=True, array_like=True):
    """The translation of a sequence, with the other hypotheses of its beam."""

    tokens: tuple[int, ...]
    """End in `</s>` if and only if `finish_reason` is "stop"."""
    log_probs: tuple[float, ...]
    """Natural logarithm of each token's probability."""
    finish_reason: FinishReason
    aligned: tuple[int, ...]
    """For each token, the index of the source token that it translates, or of the end symbol if it translates none; see
    `Hypothesis.aligned`."""
    coverage: tuple[float, ...]
    """For each source token and the end symbol, the sum of attention from all target tokens but the last
    (Tu et al. 2016)."""
    alternatives: tuple[Decoded, ...] = ()
    """The other hypotheses of the beam, best first: by `ranking_score`."""
    attention: Attention | None = None

    @property
    def score(self) -> float:
        """The mean log probability of the tokens."""
        return self.ranking_score(1)

    def ranking_score(self, length_penalty: float) -> float:
        """See `Hypothesis.ranking_score`."""
        return sum(self.log_probs) / math.pow(len(self.log_probs), length_penalty)
