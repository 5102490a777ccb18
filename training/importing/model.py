"""What every family's reader makes of a published model: all that a bundle needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from model.config import ModelConfig
from model.directions import Directions
from model.hypothesis import Decoding, Limits
from model.normalisation import Punctuation
from training.importing.vocabulary import Vocabulary

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


def with_added_rows(matrix: Tensor, rows: int) -> Tensor:
    """`matrix` [tokens, width] with rows of zeros up to `rows`."""
    return torch.cat([matrix, matrix.new_zeros(rows - len(matrix), matrix.size(1))])


def output_bias(bias: Tensor | None, known: int, size: int, unknown: int) -> Tensor:
    """The output bias of `size` tokens, of which the model knows `known`. Added ones, and the unknown symbol, are never
    the best."""
    extended = torch.full((size,), ADDED_BIAS)
    extended[:known] = 0 if bias is None else bias
    extended[unknown] = ADDED_BIAS
    return extended
