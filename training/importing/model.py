"""What every family's reader makes of a published model: all that a bundle needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from model.config import ModelConfig
from model.directions import Directions
from model.hypothesis import Decoding, Limits
from model.normalisation import Punctuation
from training.importing.vocabulary import Vocabulary

MAX_LAYERS = 200
MAX_POSITIONS = 512
MAX_SENTENCE = 256
"""Maximum tokens of a source, and of a target."""
ADDED_BIAS = -100.0
"""Output bias of tokens that the model must not choose by itself: far below any logit of a trained model."""


@dataclass(frozen=True)
class ImportedModel:
    """A published model, as a bundle will have it."""

    family: str
    config: ModelConfig
    weights: Mapping[str, Tensor]
    """As in `Transformer.named_parameters()`, float32."""
    vocabulary: Vocabulary
    """The source's, and the target's as well unless there is a `target_vocabulary`."""
    limits: Limits
    remarks: list[str]
    """What was dropped or approximated, for the card."""
    metadata: Mapping[str, Any]
    """What the model says of itself: licence, version, address."""
    directions: Directions | None = None
    """What it translates, if that is more than one language into another."""
    target_vocabulary: Vocabulary | None = None
    """See `build_vocabularies`: padding and end have the same ids on both sides."""
    decoding: Decoding = field(default_factory=Decoding)
    """How its publisher decodes it."""
    punctuation: Punctuation | None = None
    """The normaliser of sources' punctuation that its publisher uses."""
    presumed_licence: str = ""
    """The licence of all known models of its kind, if it states none itself."""


def output_bias(bias: Tensor | None, vocabulary: Vocabulary, never: Iterable[int] = ()) -> Tensor:
    """The output bias in the order of `vocabulary`: `bias` [tokens of the model], or zeros. Added tokens, and those of
    `never`, are never the best."""
    rows = torch.tensor(vocabulary.rows)
    found = torch.full((len(rows),), ADDED_BIAS)
    found[rows >= 0] = 0.0 if bias is None else bias[rows[rows >= 0]]
    found[list(never)] = ADDED_BIAS
    return found
