"""A Transformer of Marian, from its options and arrays: what its names mean, and which options are supported.

Names and options are as read in Marian's `models/transformer.h`, `rnn/cells.h` and `common/config_parser.cpp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.config import Activation, ModelConfig, NormPlacement, Sharing
from training.importing.errors import ImportFault
from training.importing.model import ADDED_BIAS, MAX_LAYERS, MAX_POSITIONS
from training.importing.model_files import Value
from training.importing.options import PositionsOf
from training.importing.weights import WeightsOnDisk

EPSILON = 1e-6
"""Of Marian's layer normalisation; ours is 1e-5."""

_IGNORED = (
    *("version", "original-type", "dim-vocabs", "dim-rnn", "enc-type", "enc-cell", "enc-cell-depth", "skip"),
    *("dec-cell-base-depth", "dec-cell-high-depth", "bert-train-type-embeddings", "bert-type-vocab-size"),
    *("transformer-dim-aan", "transformer-aan-depth", "transformer-aan-activation", "transformer-aan-nogate"),
    *("transformer-depth-scaling", "factors-combine", "lemma-dependency", "ulr-dim-emb", "max-length"),
    *("ulr-trainable-transformation", "separator-symbol", "input-types", "relative-paths", "factors-dim-emb"),
    *("transformer-alibi-shift", "transformer-alibi-trainable", "guided-alignment"),
)
"""Options of other architectures, or of training."""
_DEFAULTS: dict[str, Value] = {
    "type": "transformer",
    "dim-emb": "512",
    "enc-depth": "1",
    "dec-depth": "1",
    "dec-cell": "gru",
    "tied-embeddings": "false",
    "tied-embeddings-src": "false",
    "tied-embeddings-all": "false",
    "output-omit-bias": "false",
    "transformer-heads": "8",
    "transformer-dim-ffn": "2048",
    "transformer-decoder-dim-ffn": "0",
    "transformer-ffn-depth": "2",
    "transformer-decoder-ffn-depth": "0",
    "transformer-ffn-activation": "swish",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-guided-alignment-layer": "last",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-attention-mask": "default",
}
"""The options that are understood, and what their absence means to Marian."""
_OFF: tuple[Value, ...] = ("", "false", "0", "none", "~", "null", [])
_NORMS: dict[tuple[str, str], NormPlacement] = {("", "an"): "post", ("n", "a"): "pre", ("", "na"): "residual_post"}
"""By what is done before and after each sublayer, dropout left out."""
_ACTIVATIONS: dict[str, Activation] = {"relu": "relu", "swish": "swish"}


class MarianArray(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...

    def numbers(self) -> NDArray[np.float32]:
        """Raises ImportFault unless all are finite."""


@dataclass(frozen=True)
class VocabularySizes:
    """Rows of the source's and of the target's embeddings in a bundle, and the tokens that end and start it."""

    source: int
    target: int
    pad_id: int
    start_id: int
    end_id: int
    never: Sequence[int]
    """Target tokens that the model must not generate."""


def embedding_rows(arrays: Mapping[str, MarianArray]) -> tuple[int, int]:
    """The rows of the source's and of the target's embeddings. Raises ImportFault."""
    return _matrix_shape(arrays, _embedding(arrays, "encoder"))[0], _matrix_shape(
        arrays, _embedding(arrays, "decoder")
    )[0]


def assemble(
    options: Mapping[str, Value],
    arrays: Mapping[str, MarianArray],
    sizes: VocabularySizes,
    positions: PositionsOf,
    is_guided: bool,
    start: Tensor | None = None,
) -> tuple[ModelConfig, WeightsOnDisk]:
    """The architecture and the weights, as in `Transformer.named_parameters()`.

    `is_guided`: whether a head was trained to be the alignment. `start`: the embedding that the decoder starts from, if
    it is not zeros. Raises ImportFault.
    """
    said = _Options(options)
    network = _Network(arrays)
    width = said.number("dim-emb")
    inner = said.number("transformer-dim-ffn")
    if said.number("transformer-decoder-dim-ffn", least=0) not in (0, inner):
        raise said.fault("transformer-decoder-dim-ffn")
    if said.number("transformer-ffn-depth") != 2:
        raise said.fault("transformer-ffn-depth")
    if said.number("transformer-decoder-ffn-depth", least=0) not in (0, 2):
        raise said.fault("transformer-decoder-ffn-depth")
    norm = said.norm()
    final_norm = said.is_normalised_at_top()
    depths = {"encoder": said.number("enc-depth"), "decoder": said.number("dec-depth")}
    if max(depths.values()) > MAX_LAYERS:
        raise ImportFault(f"has {max(depths.values())} layers, over {MAX_LAYERS}")
    is_recurrent = said.is_recurrent()
    if said.text("transformer-ffn-activation") not in _ACTIVATIONS:
        raise said.fault("transformer-ffn-activation")

    weights = WeightsOnDisk()
    share = _put_embeddings(network, said, sizes, width, start, weights)
    for stack in depths if final_norm else ():
        network.put_norm(f"{stack}_top_ln", "", f"{stack}_norm", width, weights)
    suffix = "_pre" if norm == "pre" else ""
    for stack, depth in depths.items():
        for number in range(1, depth + 1):
            theirs, ours = f"{stack}_l{number}", f"{stack}.{number - 1}"
            if stack == "decoder" and is_recurrent:
                _put_recurrence(network, theirs, ours, norm, width, weights)
            else:
                _put_attention(network, f"{theirs}_self", f"{ours}.self", suffix, width, weights)
            if stack == "decoder":
                _put_attention(network, f"{theirs}_context", f"{ours}.cross", suffix, width, weights)
            for layer, name, rows, columns in (("1", "inner", inner, width), ("2", "outer", width, inner)):
                weights[f"{ours}.feed_forward.{name}.weight"] = network.matrix(f"{theirs}_ffn_W{layer}", rows, columns)
                weights[f"{ours}.feed_forward.{name}.bias"] = network.vector(f"{theirs}_ffn_b{layer}", rows)
            network.put_norm(f"{theirs}_ffn_ffn_ln", suffix, f"{ours}.feed_residual.norm", width, weights)
    network.check_empty()
    if positions == "huggingface":
        table = torch.from_numpy(huggingface_positions(MAX_POSITIONS, width))
        for side in ("source", "target"):
            weights[f"{side}_embedding.positions"] = table
    try:
        aligned = said.alignment_layer(depths["decoder"]) if is_guided else None
        config = ModelConfig(
            source_vocab_size=sizes.source,
            target_vocab_size=sizes.target,
            d_model=width,
            num_heads=said.number("transformer-heads"),
            d_ff=inner,
            encoder_layers=depths["encoder"],
            decoder_layers=depths["decoder"],
            norm=norm,
            final_norm=None if final_norm == (norm != "post") else final_norm,
            positions="learned" if positions == "huggingface" else "marian",
            max_positions=MAX_POSITIONS,
            share_embeddings=share,
            activation=_ACTIVATIONS[str(said.text("transformer-ffn-activation"))],
            output_bias=True,
            decoder="ssru" if is_recurrent else "attention",
            alignment_layer=aligned,
            alignment_head=None if aligned is None else 0,
            pad_id=sizes.pad_id,
            bos_id=sizes.start_id,
            eos_id=sizes.end_id,
        )
    except ValueError as error:
        raise ImportFault(str(error)) from None
    return config, weights


def huggingface_positions(length: int, width: int) -> NDArray[np.float32]:
    """The sinusoids of Hugging Face's Marian and of CTranslate2's converter, all sines first, [length, width]."""
    angles = np.arange(length)[:, None] / np.power(10000, 2 * np.arange(width // 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


class _Options:
    """Options, each checked as it is read. All that are not understood must be off."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._said = {**_DEFAULTS, **options}
        if self.text("type") != "transformer":
            raise self.fault("type")
        if self.text("transformer-attention-mask") != "default":
            raise self.fault("transformer-attention-mask")
        for name, value in options.items():
            if name not in _DEFAULTS and name not in _IGNORED and value not in _OFF:
                raise self.fault(name)
        if options.get("input-types", []) not in ([], "", ["sequence", "sequence"]):
            raise self.fault("input-types")

    def fault(self, name: str) -> ImportFault:
        value = self._said[name]
        said = value if isinstance(value, str) else ", ".join(value)
        return ImportFault(f"has {name}: {said}, which is not supported")

    def text(self, name: str) -> str:
        value = self._said[name]
        if not isinstance(value, str):
            if value:
                raise self.fault(name)
            return ""
        return value

    def number(self, name: str, least: int = 1) -> int:
        value = self.text(name)
        if not (value.isascii() and value.isdigit() and len(value) < 8 and int(value) >= least):
            raise self.fault(name)
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.text(name)
        if value not in ("true", "false"):
            raise self.fault(name)
        return value == "true"

    def norm(self) -> NormPlacement:
        before, after = (self.text(f"transformer-{name}").replace("d", "") for name in ("preprocess", "postprocess"))
        if (before, after) not in _NORMS:
            raise self.fault("transformer-preprocess" if before not in ("", "n") else "transformer-postprocess")
        if self.text("transformer-postprocess-emb").replace("d", ""):
            raise self.fault("transformer-postprocess-emb")
        return _NORMS[before, after]

    def is_normalised_at_top(self) -> bool:
        top = self.text("transformer-postprocess-top").replace("d", "")
        if top not in ("", "n"):
            raise self.fault("transformer-postprocess-top")
        return top == "n"

    def is_recurrent(self) -> bool:
        kind = self.text("transformer-decoder-autoreg")
        if kind == "rnn" and self.text("dec-cell") != "ssru":
            raise self.fault("dec-cell")
        if kind not in ("rnn", "self-attention"):
            raise self.fault("transformer-decoder-autoreg")
        return kind == "rnn"

    def alignment_layer(self, depth: int) -> int:
        """From 0."""
        if self.text("transformer-guided-alignment-layer") == "last":
            return depth - 1
        layer = self.number("transformer-guided-alignment-layer")
        if layer > depth:
            raise self.fault("transformer-guided-alignment-layer")
        return layer - 1


class _Network:
    """The arrays of a model, each taken once. Marian's matrices are [inputs, outputs], its vectors [1, outputs]."""

    def __init__(self, arrays: Mapping[str, MarianArray]) -> None:
        self._left = {name: array for name, array in arrays.items() if not name.endswith("_QuantMultA")}

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor:
        array = self._left.pop(name, None)
        if array is None:
            raise ImportFault(f"has no {name}")
        if array.shape != shape:
            raise ImportFault(f"has {name} of shape {array.shape}, not {shape}")
        try:
            return torch.from_numpy(np.ascontiguousarray(array.numbers()))
        except ImportFault as error:
            raise ImportFault(f"{name} {error}") from None

    def matrix(self, name: str, outputs: int, inputs: int) -> Tensor:
        """As in a `Linear`, [outputs, inputs]."""
        return self.take(name, (inputs, outputs)).T.contiguous()

    def vector(self, name: str, size: int) -> Tensor:
        return self.take(name, (1, size))[0]

    def put_norm(self, theirs: str, suffix: str, ours: str, width: int, weights: WeightsOnDisk) -> None:
        weights[f"{ours}.weight"] = self.vector(f"{theirs}_scale{suffix}", width)
        weights[f"{ours}.bias"] = self.vector(f"{theirs}_bias{suffix}", width)

    def check_empty(self) -> None:
        """Raises ImportFault if the model has anything that was not read."""
        if self._left:
            raise ImportFault(f"has {min(self._left)}, which is not supported")


def _put_embeddings(
    network: _Network,
    said: _Options,
    sizes: VocabularySizes,
    width: int,
    start: Tensor | None,
    weights: WeightsOnDisk,
) -> Sharing:
    """The embeddings and the output, with rows of zeros for tokens that were added."""
    tied_all, tied_source = said.flag("tied-embeddings-all"), said.flag("tied-embeddings-src")
    is_tied = tied_all or said.flag("tied-embeddings")
    has_one = tied_all or tied_source
    if has_one and sizes.source != sizes.target:
        raise ImportFault("has one embedding matrix for two vocabularies")

    def put(ours: str, known: Tensor, rows: int, start: Tensor | None = None) -> None:
        if len(known) > rows:
            raise ImportFault(f"has {len(known):,} rows for {ours}, more than its {rows:,} tokens")
        added = torch.zeros(rows - len(known), width)
        if start is not None:
            is_known = sizes.start_id < len(known)
            (known if is_known else added)[sizes.start_id - (0 if is_known else len(known))] = start
        weights.put(ours, (rows, width), (known, added))

    def embeddings(name: str) -> Tensor:
        return network.take(name, (_matrix_shape(network._left, name)[0], width))

    sharing: Sharing = "none" if not is_tied else "all" if has_one else "decoder"
    known = sizes.target
    if not is_tied:
        name = "decoder_ff_logit_out_W"
        if name in network:
            known = _matrix_shape(network._left, name)[1]
            output = network.matrix(name, known, width)
        else:
            known = _matrix_shape(network._left, f"{name}t")[0]
            output = network.take(f"{name}t", (known, width))
        put("output.weight", output, sizes.target)
        del output
    source = embeddings("Wemb" if has_one else "encoder_Wemb")
    put("source_embedding.tokens.weight", source, sizes.source, start if has_one else None)
    if sharing != "all":
        target = source if has_one else embeddings("decoder_Wemb")
        put("target_embedding.tokens.weight", target, sizes.target, start)
    bias = torch.full((sizes.target,), ADDED_BIAS)
    if said.flag("output-omit-bias"):
        bias[:known] = 0
    else:
        given = _matrix_shape(network._left, "decoder_ff_logit_out_b")[1]
        if given > sizes.target:
            raise ImportFault(f"has an output bias of {given:,} numbers for {sizes.target:,} tokens")
        bias[:given] = network.vector("decoder_ff_logit_out_b", given)
    bias[list(sizes.never)] = ADDED_BIAS
    weights["output.bias"] = bias
    return sharing


def _put_attention(network: _Network, theirs: str, ours: str, suffix: str, width: int, weights: WeightsOnDisk) -> None:
    letters = ("q", "k", "v")
    matrices = [network.matrix(f"{theirs}_W{letter}", width, width) for letter in letters]
    weights[f"{ours}_attention.query_key_value.weight"] = torch.cat(matrices)
    biases = [network.vector(f"{theirs}_b{letter}", width) for letter in letters]
    weights[f"{ours}_attention.query_key_value.bias"] = torch.cat(biases)
    weights[f"{ours}_attention.output.weight"] = network.matrix(f"{theirs}_Wo", width, width)
    weights[f"{ours}_attention.output.bias"] = network.vector(f"{theirs}_bo", width)
    network.put_norm(f"{theirs}_Wo_ln", suffix, f"{ours}_residual.norm", width, weights)


def _put_recurrence(
    network: _Network, theirs: str, ours: str, norm: NormPlacement, width: int, weights: WeightsOnDisk
) -> None:
    weights[f"{ours}.recurrence.candidate.weight"] = network.matrix(f"{theirs}_rnn_W", width, width)
    weights[f"{ours}.recurrence.forget.weight"] = network.matrix(f"{theirs}_rnn_Wf", width, width)
    weights[f"{ours}.recurrence.forget.bias"] = network.vector(f"{theirs}_rnn_bf", width)
    name, suffix = (f"{theirs}_rnn_ln", "_pre") if norm == "pre" else (f"{theirs}_rnn_ffn_ln", "")
    network.put_norm(name, suffix, f"{ours}.recurrence_residual.norm", width, weights)


def _embedding(arrays: Mapping[str, MarianArray], stack: str) -> str:
    return "Wemb" if "Wemb" in arrays else f"{stack}_Wemb"


def _matrix_shape(arrays: Mapping[str, MarianArray], name: str) -> tuple[int, int]:
    if name not in arrays:
        raise ImportFault(f"has no {name}")
    shape = arrays[name].shape
    if len(shape) != 2 or math.prod(shape) == 0:
        raise ImportFault(f"has {name} of shape {shape}, not a matrix")
    return shape[0], shape[1]
