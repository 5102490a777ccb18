"""`export --to ctranslate2`: converts a bundle to a model folder for the CTranslate2 library.

    python -m training export --to ctranslate2 --bundle bundles/en-fr --out ct2/en-fr

Maps our modules and symbols to CTranslate2's specification, and refuses what it cannot express.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model.atomic_files import check_replaceable, replacing_folder
from model.bundle_files import CARD, TARGET_VOCABULARY, VOCABULARY
from model.bundle_weights import LoadedBundle, load_bundle
from model.transformer import Attention, DecoderLayer, Embedding, EncoderLayer, Residual
from training.export.model_card import converted_card

DTYPES = ("float32", "float16", "bfloat16", "int8")
WEIGHTS = "model.bin"
Say = Callable[[str], None]


class ConversionError(ValueError):
    """A bundle cannot be converted; one line says why."""


@dataclass(frozen=True)
class ConvertOptions:
    """What to convert. Raises ValueError, naming the fault. `dtype` is the storage type of weights, not that of
    computation."""

    bundle: Path
    out: Path
    replace: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"--dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")


def convert_bundle(options: ConvertOptions, say: Say = print) -> None:
    """Writes a folder with the CTranslate2 model, the vocabulary, and a card with licence and usage.

    Nothing appears at `out` before CTranslate2 has reproduced the bundle's samples. Raises BundleError, NotReplaceable
    and ConversionError.
    """
    check_replaceable(options.out, options.replace, "CTranslate2 model", WEIGHTS)
    bundle = load_bundle(options.bundle, torch.device("cpu"))
    bundle.check_plain()
    spec = model_spec(bundle)
    spec.validate()
    spec.optimize(options.dtype)
    with replacing_folder(options.out) as folder:
        spec.save(str(folder))
        (folder / VOCABULARY).write_bytes(bundle.source_tokenizer.proto)
        own_target = TARGET_VOCABULARY if bundle.target_tokenizer is not bundle.source_tokenizer else None
        if own_target:
            (folder / own_target).write_bytes(bundle.target_tokenizer.proto)
        (folder / CARD).write_text(converted_card(bundle.config, bundle.name, own_target), encoding="utf-8")
        check_converted(folder, bundle, options.dtype)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    count = len(bundle.config["samples"])
    say(f"CTranslate2 translates the {count} samples of {bundle.name} as the bundle does")
    say(f"{options.out} is {bundle.name} for CTranslate2, {size / 2**20:.1f} MiB")


def model_spec(bundle: LoadedBundle) -> Any:
    """`bundle` as CTranslate2's TransformerSpec, to be validated, optimised and saved. Raises ConversionError."""
    try:
        from ctranslate2.specs import common_spec, transformer_spec
    except ImportError:
        raise ConversionError("CTranslate2 is not installed: pip install ctranslate2") from None

    model, config, tokenizer = bundle.model, bundle.model.config, bundle.target_tokenizer
    if config.norm == "residual_post":
        raise ConversionError(f"CTranslate2 does not support the layer normalisation of {bundle.name} (residual_post)")
    if config.decoder == "ssru":
        raise ConversionError(f"CTranslate2 does not support the recurrent decoder of {bundle.name} (ssru)")
    spec = transformer_spec.TransformerSpec.from_config(
        # Built as `pre` in any case: one built as `post` lacks the norm that closes a stack.
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        no_final_norm=not config.has_final_norm,
        activation=common_spec.Activation.SWISH if config.activation == "swish" else common_spec.Activation.RELU,
    )
    _set_stack(spec.encoder, model.source_embedding, model.encoder, model.encoder_norm)
    _set_stack(spec.decoder, model.target_embedding, model.decoder, model.decoder_norm)
    spec.encoder.pre_norm = spec.decoder.pre_norm = config.norm == "pre"
    _set_linear(spec.decoder.projection, model.output.weight, model.output.bias)
    source_pieces, target_pieces = ([t.piece(id) for id in range(t.vocab_size)] for t in bundle.tokenizers)
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    spec.config.bos_token = spec.config.decoder_start_token = tokenizer.piece(config.bos_id)
    spec.config.eos_token = tokenizer.piece(config.eos_id)
    spec.config.add_source_eos = config.source_eos
    return spec


def check_converted(folder: Path, bundle: LoadedBundle, dtype: str) -> None:
    """Translates the bundle's samples with CTranslate2. Raises ConversionError if a token differs from the bundle's."""
    import ctranslate2

    # One thread: PyTorch has already given this process two thread pools.
    compute = "default" if dtype == "int8" else "float32"
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type=compute, intra_threads=1)
    for sample in bundle.config["samples"]:
        source = [bundle.source_tokenizer.piece(id) for id in sample["source_ids"]]
        expected = [bundle.target_tokenizer.piece(id) for id in sample["target_ids"]]
        longest = bundle.limits.target(len(source))
        [result] = translator.translate_batch(
            [source], beam_size=1, max_decoding_length=longest, min_decoding_length=0, return_end_token=True
        )
        if result.hypotheses[0] != expected:
            raise ConversionError(f"CTranslate2 does not translate the sample {sample['source']!r} as {bundle.name}")


def _set_stack(spec: Any, embedding: Embedding, layers: nn.ModuleList, norm: nn.Module) -> None:
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = _copy(embedding.tokens.weight)
    spec.scale_embeddings = True  # by sqrt(d_model)
    # CTranslate2 orders sinusoids differently, all sines first, unless it is given the table.
    spec.position_encodings.encodings = _copy(embedding.positions)
    for layer_spec, layer in zip(spec.layer, layers, strict=True):
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        _set_layer(layer_spec, layer)
    if isinstance(norm, nn.LayerNorm):
        _set_norm(spec.layer_norm, norm)


def _set_layer(spec: Any, layer: EncoderLayer | DecoderLayer) -> None:
    _set_attention(spec.self_attention, layer.self_attention, layer.self_residual, cuts=(0, 3))
    if isinstance(layer, DecoderLayer):
        _set_attention(spec.attention, layer.cross_attention, layer.cross_residual, cuts=(0, 1, 3))
    _set_linear(spec.ffn.linear_0, layer.feed_forward.inner.weight, layer.feed_forward.inner.bias)
    _set_linear(spec.ffn.linear_1, layer.feed_forward.outer.weight, layer.feed_forward.outer.bias)
    _set_norm(spec.ffn.layer_norm, layer.feed_residual.norm)


def _set_attention(spec: Any, attention: Attention, residual: Residual, cuts: tuple[int, ...]) -> None:
    """`cuts` split query, key and value (0, 1, 2). CTranslate2, too, has one matrix for projections of one input."""
    weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
    width = weight.size(1)
    for linear, (first, last) in zip(spec.linear[:-1], pairwise(cuts), strict=True):
        rows = slice(first * width, last * width)
        _set_linear(linear, weight[rows], None if bias is None else bias[rows])
    _set_linear(spec.linear[-1], attention.output.weight, attention.output.bias)
    _set_norm(spec.layer_norm, residual.norm)


def _set_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _copy(weight)
    if bias is not None:
        spec.bias = _copy(bias)


def _set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _copy(tensor: Tensor) -> Tensor:
    """A copy, since CTranslate2 quantises in place."""
    return tensor.detach().clone()
