"""What is asked of the engine, a `Sequence`, and what came of it, `Decoded`: plain values, frozen, and equal by value.

They cross to a worker and back as they are (app/engine/messages.py). Token ids only, no text.
"""

from __future__ import annotations

from msgspec import Struct

from model.hypothesis import FinishReason


class Sequence(Struct, frozen=True, array_like=True, gc=False):
    """A source sentence and all that shapes its translation: equal sequences have equal translations, to the bit.

    `model` is the bundle's name, which includes its checksum. `source` has no end symbol. The other fields are
    `model.hypothesis.Hypothesis`'s.
    """

    model: str
    source: tuple[int, ...]
    limit: int
    """The most target tokens, the end symbol not counted."""
    forced: tuple[int, ...] | None = None
    """The target, instead of the model's choice."""
    required: tuple[int, ...] = ()
    """Each comes exactly once in the target."""
    forbidden: tuple[int, ...] = ()
    beam_size: int = 1
    prefix: tuple[int, ...] = ()
    """The target begins with these."""
    attention: bool = False
    """Whether the weights are wanted."""


class Weights(Struct, frozen=True, array_like=True, gc=False):
    """A tensor: its shape, its type as PyTorch names it, and its bytes in C order."""

    shape: tuple[int, ...]
    dtype: str
    content: bytes


class Attention(Struct, frozen=True, array_like=True):
    """The weights of the pass that made the tokens."""

    encoder: Weights
    """[layer, head, source, source], the end symbol included."""
    decoder: Weights
    """[layer, head, target, target]: the keys are the tokens before, `<s>` first; lower triangular."""
    cross: Weights
    """[layer, head, target, source], the end symbols included."""


class Decoded(Struct, frozen=True, array_like=True):
    """A sequence's translation, and what else a beam found."""

    tokens: tuple[int, ...]
    """They end in `</s>` if and only if `finish_reason` is "stop"."""
    log_probs: tuple[float, ...]
    """A natural logarithm a token."""
    finish_reason: FinishReason
    aligned: tuple[int, ...]
    """For each token, the source token that it attended to most, the end symbol aside."""
    coverage: tuple[float, ...]
    """For each source token, the end symbol included, the attention that it got from all target tokens but the last
    (Tu et al. 2016)."""
    alternatives: tuple[Decoded, ...] = ()
    """The other hypotheses of the beam, the best mean log probability first."""
    attention: Attention | None = None

    @property
    def score(self) -> float:
        """The mean log probability of the tokens."""
        return sum(self.log_probs) / len(self.log_probs)
