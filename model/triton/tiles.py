"""What the kernels share: the sizes of tiles, products, and layer normalisation.

Products take numbers of the model's type and sum in float32. Matrices are PyTorch's, [outputs, inputs]. Names in
shapes: `d`, the model's width; d_k, that of a head.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

ROW_TILE = tl.constexpr(16)
"""Rows of a program with attention."""
CHUNK = tl.constexpr(8)
"""Keys that a decoder's attention reads at a time."""
WIDE_ROW_TILE = tl.constexpr(64)
"""Rows of a program without attention."""
INPUT_TILE, OUTPUT_TILE = tl.constexpr(64), tl.constexpr(64)
"""Inputs that a product reads at a time, and outputs of a tile."""
TOKEN_TILE = tl.constexpr(128)
"""Tokens of the vocabulary of a program."""
INNER_TILE = tl.constexpr(128)
"""Columns of the feed-forward network's inner layer of a program."""
KEY_TILE = tl.constexpr(32)
"""Keys that the encoder's attention reads at a time."""
STOP, LENGTH = tl.constexpr(1), tl.constexpr(2)
"""Why a row ended; 0 while it runs."""


@triton.jit  # type: ignore[untyped-decorator]
def live_rows(rows: tl.tensor, count: tl.tensor, ended_ptr: tl.tensor) -> Any:
    """Which of `rows` are below `count` and have not ended."""
    live = rows < count
    if ended_ptr is not None:
        live = live & (tl.load(ended_ptr + rows, mask=live, other=1) == 0)
    return live


@triton.jit  # type: ignore[untyped-decorator]
def product(
    x_ptr: tl.tensor,
    rows: tl.tensor,
    live: tl.tensor,
    weight_ptr: tl.tensor,
    outputs: tl.tensor,
    last: tl.tensor,
    D: tl.constexpr,
    TILE: tl.constexpr,
) -> Any:
    """x W^T for `rows` of x [.., D] and `outputs` of weight [.., D], those below `last`: [rows, outputs] in float32."""
    total = tl.zeros((rows.shape[0], outputs.shape[0]), tl.float32)
    for first in range(0, D, TILE):
        inner = first + tl.arange(0, TILE)
        x = tl.load(x_ptr + rows[:, None] * D + inner[None, :], mask=live[:, None] & (inner < D)[None, :], other=0.0)
        weight = tl.load(
            weight_ptr + outputs[None, :] * D + inner[:, None],
            mask=(outputs < last)[None, :] & (inner < D)[:, None],
            other=0.0,
        )
        total = tl.dot(x, weight, total, input_precision="ieee")
    return total


@triton.jit  # type: ignore[untyped-decorator]
def biased(total: tl.tensor, bias_ptr: tl.tensor, outputs: tl.tensor, last: tl.tensor) -> Any:
    if bias_ptr is not None:
        total += tl.load(bias_ptr + outputs, mask=outputs < last, other=0.0).to(tl.float32)[None, :]
    return total


@triton.jit  # type: ignore[untyped-decorator]
def store_part(
    x: tl.tensor,
    rows: tl.tensor,
    live: tl.tensor,
    part_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    D: tl.constexpr,
    STRIDE: tl.constexpr,
    INNER: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Stores x W^T, where x [rows, INNER] are the inputs `first` to `last` - 1 of weight [D, STRIDE], in a part."""
    inner = first + tl.arange(0, INNER)
    for start in range(0, D, TILE):
        outputs = start + tl.arange(0, TILE)
        weight = tl.load(
            weight_ptr + outputs[None, :] * STRIDE + inner[:, None],
            mask=(outputs < D)[None, :] & (inner < last)[:, None],
            other=0.0,
        )
        total = tl.dot(x, weight, input_precision="ieee")
        tl.store(part_ptr + rows[:, None] * D + outputs[None, :], total, mask=live[:, None] & (outputs < D)[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def normalised(x: tl.tensor, norm_ptr: tl.tensor, column: tl.tensor, D: tl.constexpr) -> Any:
    """Layer normalisation of a row x, whose columns from D on are 0. norm [2, D]: scale and shift."""
    inside = column < D
    centred = tl.where(inside, x - tl.sum(x, 0) / D, 0.0)
    scaled = centred * tl.rsqrt(tl.sum(centred * centred, 0) / D + 1e-5)
    scale = tl.load(norm_ptr + column, mask=inside, other=0.0).to(tl.float32)
    return scaled * scale + tl.load(norm_ptr + D + column, mask=inside, other=0.0).to(tl.float32)
