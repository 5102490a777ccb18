"""Bundles with random weights, in the shapes of models that are not shipped."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import torch

from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.config import ModelConfig
from model.hypothesis import Limits
from model.tokenizer import Tokenizer
from model.transformer import Transformer

TARGET_TOKENS = 24
"""Of every sentence: random weights end none before."""
_SIX_AND_SIX = {"d_model": 512, "num_heads": 8, "d_ff": 2048, "encoder_layers": 6, "decoder_layers": 6}
_M2M = {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "vocabulary": 128_112}
_STUDENT = {
    **{"d_model": 256, "num_heads": 8, "d_ff": 1536, "encoder_layers": 6, "decoder_layers": 2},
    **{"vocabulary": 32_000, "norm": "post", "output_bias": True},
}
_RECURRENT = {"decoder": "ssru", "positions": "marian", "zero_start": True}
SHAPES: dict[str, dict[str, Any]] = {
    "base": {**_SIX_AND_SIX, "vocabulary": 32_000},
    "argos": {**_SIX_AND_SIX, "vocabulary": 32_000, "output_bias": True},
    "m2m": {**_M2M, "encoder_layers": 12, "decoder_layers": 12},
    "m2m-third": {**_M2M, "encoder_layers": 4, "decoder_layers": 4},
    "opus": {**_SIX_AND_SIX, "vocabulary": 60_000, "norm": "post", "activation": "swish", "output_bias": True},
    "student": {**_STUDENT, **_RECURRENT},
    "student-base-memory": {**_STUDENT, "d_model": 384, "decoder_layers": 4, **_RECURRENT},
    "student-attention": _STUDENT,
    "student-base-memory-attention": {**_STUDENT, "d_model": 384, "decoder_layers": 4},
}
"""The paper's base model; OpenNMT's, which Argos packages have; that of M2M-100 with 418 million parameters (Fan et al.
2020), and with a third of its layers; OPUS-MT's (Tiedemann and Thottingal 2020); Firefox's `tiny` and `base-memory`,
which are recurrent, and the same with self-attention, by a name that ends in `ATTENTION`."""
ATTENTION = "-attention"


def random_bundle(folder: Path, shape: str, like: LoadedBundle) -> LoadedBundle:
    """Writes a bundle of this shape, whose vocabulary begins with that of `like`.

    Weights are normal, as trained ones roughly are. Raises KeyError for an unknown shape.
    """
    fields = dict(SHAPES[shape])
    size = fields.pop("vocabulary")
    tokenizer = Tokenizer(_with_more_pieces(like.source_tokenizer.proto, size - like.source_tokenizer.vocab_size))
    config = ModelConfig(source_vocab_size=size, target_vocab_size=size, **fields)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        model = Transformer(config).eval()
        for parameter in model.parameters():
            if parameter.ndim == 2:
                torch.nn.init.normal_(parameter, std=config.d_model**-0.5)
        if config.output_bias:
            model.output.bias.normal_(std=0.1)
    limits = Limits(max_target=TARGET_TOKENS, ratio=0, margin=TARGET_TOKENS)
    record = {"source": like.source, "target": like.target, "samples": []}
    save_bundle(folder, model, tokenizer, limits, record, f"Random weights in the shape of {shape}.\n")
    return load_bundle(folder, torch.device("cpu"))


def _with_more_pieces(proto: bytes, count: int) -> bytes:
    """A SentencePiece model with `count` more pieces, which occur in no text.

    Elements of a repeated field, here number 1, may be appended to a serialised message.
    """
    more = bytearray()
    for number in range(count):
        name = f"\N{OBJECT REPLACEMENT CHARACTER}{number}".encode()
        piece = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", -100.0)  # its text and score
        more += b"\x0a" + bytes([len(piece)]) + piece
    return proto + bytes(more)
