"""`export --to marian`: converts a bundle to a model for Marian.

    python -m training export --to marian --bundle bundles/en-fr --out marian/en-fr

`training.importing.marian` is the inverse. Marian computes its own positions and starts from zeros, so that only models
trained with `--positions marian --zero-start`, and those that Marian trained, can be expressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.atomic_files import check_replaceable, replacing_folder
from model.bundle_files import CARD
from model.bundle_weights import LoadedBundle, load_bundle
from model.config import ModelConfig, NormPlacement
from model.positions import marian_positions
from model.tokenizer import Tokenizer
from model.transformer import Attention, DecoderLayer, EncoderLayer, FeedForward, Transformer
from training.export.ctranslate2 import ConversionError, Say
from training.export.model_card import marian_card
from training.protobuf import encode_field

WEIGHTS, DECODER = "model.npz", "decoder.yml"
OPTIONS = "special:model.yml"
VOCABULARIES = (("vocab.spm",), ("srcvocab.spm", "trgvocab.spm"))
"""File names for one vocabulary, and for two."""
_PROCESSES: dict[NormPlacement, tuple[str, str]] = {
    "post": ("", "dan"),
    "pre": ("n", "da"),
    "residual_post": ("", "dna"),
}
"""What Marian does before and after a sublayer: n normalises, d drops, a adds the input."""


@dataclass(frozen=True)
class MarianOptions:
    """What to convert."""

    bundle: Path
    out: Path
    replace: bool = False


def convert_for_marian(options: MarianOptions, say: Say = print) -> None:
    """Writes a folder with the model, its vocabularies, `decoder.yml`, and a card with licence and usage.

    Raises BundleError, NotReplaceable and ConversionError.
    """
    check_replaceable(options.out, options.replace, "Marian model", WEIGHTS)
    bundle = load_bundle(options.bundle, torch.device("cpu"))
    bundle.check_plain()
    arrays = marian_arrays(bundle.model)
    with replacing_folder(options.out) as folder:
        write_npz(folder / WEIGHTS, arrays)
        names = write_vocabularies(folder, bundle)
        (folder / DECODER).write_text(decoder_settings(names, bundle), encoding="utf-8")
        (folder / CARD).write_text(marian_card(bundle.config, bundle.name), encoding="utf-8")
    size = sum(file.stat().st_size for file in options.out.iterdir())
    say(f"{options.out} is {bundle.name} for Marian, {size / 2**20:.1f} MiB")


def write_npz(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    with open(path, "wb") as file:
        np.savez(file, **cast(Any, arrays))


def write_vocabularies(folder: Path, bundle: LoadedBundle) -> list[str]:
    """The files of the source's and of the target's vocabulary, which may be one."""
    both = bundle.tokenizers
    tokenizers = [both.source] if both.source is both.target else [both.source, both.target]
    names = VOCABULARIES[len(tokenizers) - 1]
    for name, tokenizer in zip(names, tokenizers, strict=True):
        (folder / name).write_bytes(marian_vocabulary(tokenizer))
    return [names[0], names[-1]]


def marian_vocabulary(tokenizer: Tokenizer) -> bytes:
    """The SentencePiece model with white space as Marian expects it: one space is put before the text, others are
    removed. Of a field that occurs twice the last one counts, so that a normaliser with these two is appended."""
    normaliser = encode_field(3, 1) + encode_field(4, 1)
    return tokenizer.proto + encode_field(3, normaliser)


def decoder_settings(vocabularies: list[str], bundle: LoadedBundle) -> str:
    """Marian's `decoder.yml`."""
    lines = ["relative-paths: true", "models:", f"  - {WEIGHTS}", "vocabs:", *(f"  - {name}" for name in vocabularies)]
    lines += [f"beam-size: {bundle.decoding.beam_size or 1}", f"normalize: {bundle.decoding.length_penalty:g}"]
    return "\n".join([*lines, "word-penalty: 0", ""])


def marian_arrays(model: Transformer) -> dict[str, NDArray[Any]]:
    """The model's weights and options by Marian's names. Raises ConversionError for what Marian does not have."""
    config = model.config
    _check(model)
    arrays = dict(_arrays(model))
    options = "\n".join(f"{name}: {value}" for name, value in _options(config).items()) + "\n"
    return {**arrays, OPTIONS: np.frombuffer(options.encode() + b"\0", np.int8)}


def _check(model: Transformer) -> None:
    config, start = model.config, model.target_embedding.tokens.weight[model.config.bos_id]
    table = torch.tensor(marian_positions(config.max_positions, config.d_model))
    if not all(torch.allclose(side.positions, table) for side in (model.source_embedding, model.target_embedding)):
        raise ConversionError(f"Marian has no {config.positions} positions: train with --positions marian --zero-start")
    if not config.zero_start and start.any():
        raise ConversionError("Marian starts from zeros, and this model from a token: train with --zero-start")
    if not config.source_eos:
        raise ConversionError("Marian ends each source with </s>, and this model does not")


def _options(config: ModelConfig) -> dict[str, str | int]:
    before, after = _PROCESSES[config.norm]
    flags = {True: "true", False: "false"}
    aligned = config.alignment_layer
    return {
        "type": "transformer",
        "dim-vocabs": f"[{config.source_vocab_size}, {config.target_vocab_size}]",
        "dim-emb": config.d_model,
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "tied-embeddings": flags[config.share_embeddings == "decoder"],
        "tied-embeddings-src": "false",
        "tied-embeddings-all": flags[config.share_embeddings == "all"],
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": config.activation,
        "transformer-preprocess": f'"{before}"',
        "transformer-postprocess": after,
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n" if config.has_final_norm else '""',
        "transformer-decoder-autoreg": "rnn" if config.decoder == "ssru" else "self-attention",
        "dec-cell": "ssru" if config.decoder == "ssru" else "gru",
        "transformer-guided-alignment-layer": "last" if aligned is None else aligned + 1,
        **({} if aligned is None else {"guided-alignment": "true"}),
    }


def _arrays(model: Transformer) -> Iterator[tuple[str, NDArray[np.float32]]]:
    config = model.config
    if config.share_embeddings == "all":
        yield "Wemb", _rows(model.target_embedding.tokens.weight)
    else:
        yield "encoder_Wemb", _rows(model.source_embedding.tokens.weight)
        yield "decoder_Wemb", _rows(model.target_embedding.tokens.weight)
    if config.share_embeddings == "none":
        yield "decoder_ff_logit_out_Wt", _rows(model.output.weight)
    bias = model.output.bias if config.output_bias else torch.zeros(config.target_vocab_size)
    yield "decoder_ff_logit_out_b", _rows(bias[None])
    for stack, layers, norm in (
        ("encoder", model.encoder, model.encoder_norm),
        ("decoder", model.decoder, model.decoder_norm),
    ):
        for number, layer in enumerate(layers):
            assert isinstance(layer, EncoderLayer | DecoderLayer)
            yield from _layer(f"{stack}_l{number + 1}", layer, config, number)
        if isinstance(norm, nn.LayerNorm):
            yield from _norm(f"{stack}_top_ln", norm)


def _layer(
    name: str, layer: EncoderLayer | DecoderLayer, config: ModelConfig, number: int
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    suffix = "_pre" if config.norm == "pre" else ""
    if isinstance(layer, DecoderLayer) and config.decoder == "ssru":
        yield f"{name}_rnn_W", _columns(layer.recurrence.candidate.weight)
        yield f"{name}_rnn_Wf", _columns(layer.recurrence.forget.weight)
        yield f"{name}_rnn_bf", _rows(layer.recurrence.forget.bias[None])
        normed = f"{name}_rnn_ln" if suffix else f"{name}_rnn_ffn_ln"
        yield from _norm(normed, layer.recurrence_residual.norm, suffix)
    else:
        yield from _attention(f"{name}_self", layer.self_attention)
        yield from _norm(f"{name}_self_Wo_ln", layer.self_residual.norm, suffix)
    if isinstance(layer, DecoderLayer):
        first = config.alignment_head if number == config.alignment_layer else None
        yield from _attention(f"{name}_context", layer.cross_attention, first or 0)
        yield from _norm(f"{name}_context_Wo_ln", layer.cross_residual.norm, suffix)
    feed_forward: FeedForward = layer.feed_forward
    for part, linear in (("1", feed_forward.inner), ("2", feed_forward.outer)):
        yield f"{name}_ffn_W{part}", _columns(linear.weight)
        yield f"{name}_ffn_b{part}", _rows(linear.bias[None])
    yield from _norm(f"{name}_ffn_ffn_ln", layer.feed_residual.norm, suffix)


def _attention(name: str, attention: Attention, first_head: int = 0) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """`first_head` comes first: Marian takes alignments from the first head."""
    width, head = attention.d_model, attention.head_dim
    order = [first_head, *(number for number in range(attention.num_heads) if number != first_head)]
    places = torch.cat([torch.arange(number * head, (number + 1) * head) for number in order])
    projections = attention.query_key_value
    for part, letter in enumerate("qkv"):
        rows = places + part * width
        yield f"{name}_W{letter}", _columns(projections.weight[rows])
        bias = torch.zeros(width) if projections.bias is None else projections.bias[rows]
        yield f"{name}_b{letter}", _rows(bias[None])
    yield f"{name}_Wo", _columns(attention.output.weight[:, places])
    bias = torch.zeros(width) if attention.output.bias is None else attention.output.bias
    yield f"{name}_bo", _rows(bias[None])


def _norm(name: str, norm: nn.LayerNorm, suffix: str = "") -> Iterator[tuple[str, NDArray[np.float32]]]:
    yield f"{name}_scale{suffix}", _rows(norm.weight[None])
    yield f"{name}_bias{suffix}", _rows(norm.bias[None])


def _rows(tensor: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().float().numpy())


def _columns(weight: Tensor) -> NDArray[np.float32]:
    """A `Linear`'s matrix [outputs, inputs] as Marian has it, [inputs, outputs]."""
    return _rows(weight.T)
