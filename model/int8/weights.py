"""Packs a model's weights for the int8 kernels: one block of memory, in the order in which `model_open` reads it.

`model.int8.prepared` keeps what is packed in a file that all workers share.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ctypes import CDLL, c_int32
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig
from model.int8.isa import KernelsUnavailable
from model.positions import computed_positions
from model.safetensors_format import Content, StoredTensor, read_tensors
from model.weight_shapes import ALIGNMENT_HEAD
from model.weight_storage import INT8, scale_name

Weights = Mapping[str, NDArray[np.float32]]
"""By the names of `model.weight_shapes`."""
Array = NDArray[Any]

LANES = 16
"""Floats in a vector of kernels.c; widths must be multiples of it."""
ALIGNMENT = 64
_ROWS_TOGETHER = 4096
PLACEMENTS = ("pre", "post", "residual_post")
_GROUP = 64  # as in kernels.c


def check_widths(config: ModelConfig) -> None:
    """Raises KernelsUnavailable for widths that do not fill the kernels' vectors."""
    widths = config.head_dim, config.d_ff, config.alignment_size
    if any(width % LANES for width in widths):
        given = "{}, {} and {}".format(*widths)
        raise KernelsUnavailable(
            f"widths of heads, feed-forward and alignment must be multiples of {LANES}, not {given}"
        )


class Layout(NamedTuple):
    """What the packed weights depend on, besides the model: constants of the compiled kernels."""

    panel: int
    """Columns computed together."""
    depth: int
    """Inputs of a column that lie beside each other."""
    zero: int
    """What is added to each weight."""
    saturating: int
    """Whether panels are ordered for an instruction that saturates; see layout.h."""


def packed(weights: Weights, config: ModelConfig, layout: Layout, kernels: CDLL) -> Iterator[bytes]:
    """Quantises the weights and yields them packed, piece by piece, each padded to ALIGNMENT bytes.

    `kernels` do the packing; they may be others than those with this layout.
    """
    for array in _arrays(weights, config, partial(_pack_matrix, kernels, layout)):
        yield array.tobytes() + bytes(-array.nbytes % ALIGNMENT)


def pack_into_memory(weights: Weights, config: ModelConfig, layout: Layout, kernels: CDLL) -> mmap.mmap:
    """Packs the weights into memory of this process, in huge pages where supported."""
    parts = list(packed(weights, config, layout, kernels))
    memory = mmap.mmap(-1, sum(map(len, parts)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # not supported by the system
            memory.madvise(mmap.MADV_HUGEPAGE)
    for number, part in enumerate(parts):
        memory.write(part)
        parts[number] = b""  # it is not needed twice
    return memory


def read_weights(content: Content) -> Weights:
    """The weights in a model.safetensors that `model.bundle` has verified, as float32."""
    tensors = read_tensors(content)
    arrays = {name: _as_float32(tensor) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if tensor.dtype == INT8:
            arrays[name] *= arrays.pop(scale_name(name))[:, None]
    return arrays


def _as_float32(tensor: StoredTensor) -> NDArray[np.float32]:
    if tensor.dtype == "BF16":  # NumPy does not have it: the upper half of a float32
        return (np.frombuffer(tensor.data, "<u2").astype("<u4") << 16).view("<f4").reshape(tensor.shape)
    types = {INT8: "<i1", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
    return np.frombuffer(tensor.data, types[tensor.dtype]).astype(np.float32).reshape(tensor.shape)


def quantise_rows(x: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """x [rows, columns] as int8 and a scale for each row, as `model.int8.reference.quantise_rows` does in PyTorch.

    Some rows at a time: what is in between takes several times the memory of x.
    """
    signed, scale = np.empty(x.shape, np.int8), np.empty(len(x), np.float32)
    for first in range(0, len(x), _ROWS_TOGETHER):
        some = slice(first, first + _ROWS_TOGETHER)
        largest = np.abs(x[some]).max(1)  # [rows]
        inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest != 0)
        signed[some] = np.rint(x[some] * inverse[:, None])
        scale[some] = largest / np.float32(127)
    return signed, scale


def _arrays(weights: Weights, config: ModelConfig, pack_matrix: Callable[..., Array]) -> Iterator[Array]:
    """What `model_open` reads, in its order."""
    shared = config.share_embeddings
    source = weights["source_embedding.tokens.weight"]
    target = source if shared == "all" else weights["target_embedding.tokens.weight"]
    number_bytes = max(bytes_per_number(source), bytes_per_number(target))
    is_tied = shared != "none" and number_bytes == 1  # the output's weights are those that the embedding reads
    yield np.array(
        [
            *(config.d_model, config.num_heads, config.d_ff, PLACEMENTS.index(config.norm)),
            *(config.encoder_layers, config.decoder_layers, config.bos_id, config.eos_id),
            *(len(source), len(target), config.max_positions),
            *(shared == "all", config.positions == "learned", config.attention_bias, config.has_final_norm),
            *(number_bytes, config.activation == "swish", config.source_eos, config.decoder == "ssru"),
            *(-1 if index is None else index for index in (config.alignment_layer, config.alignment_head)),
            *(config.alignment_size, is_tied, config.bos_id if config.zero_start else -1),
        ],
        np.int32,
    )

    def matrix(weight: NDArray[np.float32], nonnegative: bool = False) -> Iterator[Array]:
        """Packed weights and their scales. `nonnegative`: whether no input is ever negative."""
        signed, scale = quantise_rows(weight)
        yield pack_matrix(signed, nonnegative)
        yield _padded(scale)

    def tokens(table: NDArray[np.float32]) -> Iterator[Array]:
        if number_bytes == 1:
            yield from quantise_rows(table)
        else:
            yield table.astype(np.float16 if number_bytes == 2 else np.float32)

    def linear(name: str, first: int = 0, last: int | None = None, nonnegative: bool = False) -> Iterator[Array]:
        """Rows `first` to `last` of the matrix; scales; bias."""
        rows = slice(first * config.d_model, None if last is None else last * config.d_model)
        yield from matrix(weights[f"{name}.weight"][rows], nonnegative)
        if f"{name}.bias" in weights:
            yield _padded(weights[f"{name}.bias"][rows])

    def norm(name: str) -> Iterator[Array]:
        yield weights[f"{name}.weight"]
        yield weights[f"{name}.bias"]

    def self_attention(layer: str) -> Iterator[Array]:
        yield from linear(f"{layer}.self_attention.query_key_value")
        yield from linear(f"{layer}.self_attention.output")
        yield from norm(f"{layer}.self_residual.norm")

    def recurrence(layer: str) -> Iterator[Array]:
        """Both matrices as one, since their input is the same."""
        candidate, forget = (weights[f"{layer}.recurrence.{name}.weight"] for name in ("candidate", "forget"))
        bias = weights[f"{layer}.recurrence.forget.bias"]
        yield from matrix(np.concatenate([candidate, forget]))
        yield _padded(np.concatenate([np.zeros_like(bias), bias]))
        yield from norm(f"{layer}.recurrence_residual.norm")

    def feed_forward(layer: str) -> Iterator[Array]:
        yield from linear(f"{layer}.feed_forward.inner")
        yield from linear(f"{layer}.feed_forward.outer", nonnegative=config.activation == "relu")
        yield from norm(f"{layer}.feed_residual.norm")

    yield from matrix(target if shared != "none" else weights["output.weight"])
    bias = weights["output.bias"] if config.output_bias else np.zeros(len(target), np.float32)
    yield _padded(bias, -math.inf)  # which keeps the columns of the padding from being chosen
    if not is_tied:
        yield from tokens(target)
    if shared != "all":
        yield from tokens(source)
    if config.positions == "learned":
        yield weights["source_embedding.positions"]
        yield weights["target_embedding.positions"]
    else:
        yield computed_positions(config)
    for number in range(config.encoder_layers):
        yield from self_attention(f"encoder.{number}")
        yield from feed_forward(f"encoder.{number}")
    for number in range(config.decoder_layers):
        name = f"decoder.{number}"
        yield from recurrence(name) if config.decoder == "ssru" else self_attention(name)
        yield from linear(f"{name}.cross_attention.query_key_value", 0, 1)  # queries
        yield from linear(f"{name}.cross_attention.query_key_value", 1, 3)  # keys and values
        yield from linear(f"{name}.cross_attention.output")
        yield from norm(f"{name}.cross_residual.norm")
        yield from feed_forward(name)
    if config.has_final_norm:
        yield from norm("encoder_norm")
        yield from norm("decoder_norm")
    if config.alignment_size:
        yield from linear(f"{ALIGNMENT_HEAD}.query")
        yield from linear(f"{ALIGNMENT_HEAD}.key")


def bytes_per_number(x: NDArray[np.float32]) -> int:
    """The fewest bytes for each number of x [rows, columns]: 1 if quantising by row restores it exactly, as in bundles
    stored in int8; 2 if half precision does; else 4."""
    parts = [x[first : first + _ROWS_TOGETHER] for first in range(0, len(x), _ROWS_TOGETHER)]
    with np.errstate(over="ignore", invalid="ignore"):
        quantised = ((part, *quantise_rows(part)) for part in parts)
        if all(np.array_equal(signed * scale[:, None], part) for part, signed, scale in quantised):
            return 1
        return 2 if all(np.array_equal(part, part.astype(np.float16)) for part in parts) else 4


def _pack_matrix(kernels: CDLL, layout: Layout, weight: NDArray[np.int8], nonnegative: bool) -> Array:
    """weight [outputs, inputs] in the layout."""
    outputs, inputs = weight.shape
    numbers = (c_int32 * len(layout))(*layout)
    packed = np.empty(kernels.packed_bytes(numbers, inputs, outputs, nonnegative), np.uint8)
    kernels.pack_matrix(numbers, weight.ctypes.data, inputs, outputs, nonnegative, packed.ctypes.data)
    return packed


def _padded(x: NDArray[np.float32], value: float = 0.0) -> NDArray[np.float32]:
    return np.pad(x, (0, -len(x) % _GROUP), constant_values=value)
