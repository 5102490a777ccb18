"""The shapes derived from an architecture are those of the model."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
import torch

from model.config import Decoder, ModelConfig, NormPlacement, Positions, Sharing
from model.transformer import Transformer
from model.weight_shapes import weight_shapes

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("fields", list(product(get_args(NormPlacement), [None, True, False], get_args(Positions))))
@pytest.mark.parametrize("sharing", get_args(Sharing))
@pytest.mark.parametrize(("bias", "decoder"), [(True, "attention"), (False, "attention"), (False, "ssru")])
def test_shapes_are_those_of_the_model(
    fields: tuple[NormPlacement, bool | None, Positions], sharing: Sharing, bias: bool, decoder: Decoder
) -> None:
    norm, final_norm, positions = fields
    config = ModelConfig(
        source_vocab_size=10,
        target_vocab_size=10 if sharing == "all" else 12,
        d_model=4,
        num_heads=2,
        d_ff=6,
        encoder_layers=2,
        decoder_layers=3,
        max_positions=8,
        norm=norm,
        final_norm=final_norm,
        positions=positions,
        share_embeddings=sharing,
        attention_bias=bias,
        output_bias=not bias,
        decoder=decoder,
    )
    with torch.device("meta"):
        model = Transformer(config)
    assert weight_shapes(config) == {name: tuple(weight.shape) for name, weight in model.named_parameters()}
