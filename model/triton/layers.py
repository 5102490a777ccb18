"""Kernels without attention: embedding, residual connections with normalisation, projections, feed-forward, recurrence.

What a sublayer adds to the residual stream is stored in parts, [parts, rows, d] in float32: one for each head, or for a
slice of the feed-forward network's inner layer. `combine` sums them in order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from model.triton.tiles import (
    INNER_TILE,
    INPUT_TILE,
    OUTPUT_TILE,
    WIDE_ROW_TILE,
    biased,
    live_rows,
    normalised,
    product,
    store_part,
)


@triton.jit  # type: ignore[untyped-decorator]
def _store_normalised(x: tl.tensor, y_ptr: tl.tensor, after_ptr: tl.tensor, column: tl.tensor, D: tl.constexpr) -> None:
    """Stores a row of x [D] as the next sublayer reads it: after its norm, if it begins with one."""
    if after_ptr is not None:
        x = normalised(x, after_ptr, column, D)
    tl.store(y_ptr + column, x.to(y_ptr.dtype.element_ty), mask=column < D)


@triton.jit(do_not_specialize=["count", "zero_id"])  # type: ignore[untyped-decorator]
def embed(
    x_ptr: tl.tensor,
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    token_ptr: tl.tensor,
    place_ptr: tl.tensor,
    table_ptr: tl.tensor,
    position_ptr: tl.tensor,
    after_ptr: tl.tensor,
    scale: tl.tensor,
    zero_id: tl.tensor,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """x [rows, D] = the embeddings of tokens [rows] at places [rows], those of `zero_id` read as zeros; y as in
    `combine`. A row a program."""
    row = tl.program_id(0).to(tl.int64)
    if live_rows(row, count, ended_ptr):
        column = tl.arange(0, BLOCK)
        inside = column < D
        token = tl.load(token_ptr + row).to(tl.int64)
        place = tl.load(place_ptr + row).to(tl.int64)
        x = tl.load(table_ptr + token * D + column, mask=inside, other=0.0).to(tl.float32) * scale
        x = tl.where(token == zero_id, 0.0, x)
        x += tl.load(position_ptr + place * D + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(x_ptr + row * D + column, x, mask=inside)
        _store_normalised(x, y_ptr + row * D, after_ptr, column, D)


@triton.jit(do_not_specialize=["count", "parts", "part_rows"])  # type: ignore[untyped-decorator]
def combine(
    x_ptr: tl.tensor,
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    part_ptr: tl.tensor,
    parts: tl.tensor,
    part_rows: tl.tensor,
    bias_ptr: tl.tensor,
    before_ptr: tl.tensor,
    after_ptr: tl.tensor,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    PLACEMENT: tl.constexpr,
) -> None:
    """Ends a sublayer and begins the next, a row a program. x [rows, D] += the sum of parts [parts, part_rows, D] and
    the bias; y = what the next sublayer reads. `before`: the norm of the sublayer that ends, which "post" applies to
    the sum and "residual_post" to what is added to it; `after`: that of the next one, or the last. See `Residual`."""
    row = tl.program_id(0).to(tl.int64)
    if live_rows(row, count, ended_ptr):
        column = tl.arange(0, BLOCK)
        inside = column < D
        added = tl.zeros((BLOCK,), tl.float32)
        for part in range(parts):
            added += tl.load(part_ptr + (part * part_rows.to(tl.int64) + row) * D + column, mask=inside, other=0.0)
        if bias_ptr is not None:
            added += tl.load(bias_ptr + column, mask=inside, other=0.0).to(tl.float32)
        if PLACEMENT == "residual_post":
            added = normalised(added, before_ptr, column, D)
        x = added + tl.load(x_ptr + row * D + column, mask=inside, other=0.0)
        if PLACEMENT == "post":
            x = normalised(x, before_ptr, column, D)
        tl.store(x_ptr + row * D + column, x, mask=inside)
        _store_normalised(x, y_ptr + row * D, after_ptr, column, D)


@triton.jit(do_not_specialize=["count", "block_stride"])  # type: ignore[untyped-decorator]
def project(
    y_ptr: tl.tensor,
    count: tl.tensor,
    weight_ptr: tl.tensor,
    bias_ptr: tl.tensor,
    out_ptr: tl.tensor,
    place_ptr: tl.tensor,
    block_stride: tl.tensor,
    D: tl.constexpr,
    DK: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """y W^T + b of rows of y [rows, D], one block of d_k outputs a program. Row r's block j goes to `place[r]` +
    j * `block_stride` of `out`."""
    rows = tl.program_id(0).to(tl.int64) * WIDE_ROW_TILE + tl.arange(0, WIDE_ROW_TILE)
    live = rows < count
    within = tl.arange(0, BLOCK)
    outputs = tl.program_id(1) * DK + within
    last = (tl.program_id(1) + 1) * DK
    total = biased(product(y_ptr, rows, live, weight_ptr, outputs, last, D, INPUT_TILE), bias_ptr, outputs, last)
    place = tl.load(place_ptr + rows, mask=live, other=0) + tl.program_id(1).to(tl.int64) * block_stride
    target = out_ptr + place[:, None] + within[None, :]
    tl.store(target, total.to(out_ptr.dtype.element_ty), mask=live[:, None] & (within < DK)[None, :])


@triton.jit(do_not_specialize=["count", "part_rows"])  # type: ignore[untyped-decorator]
def feed_forward(
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    inner_ptr: tl.tensor,
    inner_bias_ptr: tl.tensor,
    outer_ptr: tl.tensor,
    part_ptr: tl.tensor,
    part_rows: tl.tensor,
    D: tl.constexpr,
    F: tl.constexpr,
    SWISH: tl.constexpr,
) -> None:
    """A slice of the inner layer a program, and what it adds to the output: one part."""
    slice_ = tl.program_id(1)
    rows = tl.program_id(0).to(tl.int64) * WIDE_ROW_TILE + tl.arange(0, WIDE_ROW_TILE)
    live = live_rows(rows, count, ended_ptr)
    if tl.max(live.to(tl.int32), 0) > 0:
        outputs = slice_ * INNER_TILE + tl.arange(0, INNER_TILE)
        hidden = biased(product(y_ptr, rows, live, inner_ptr, outputs, F, D, INPUT_TILE), inner_bias_ptr, outputs, F)
        # NaN stays NaN.
        hidden = hidden / (1.0 + tl.exp(-hidden)) if SWISH else tl.where(hidden < 0.0, 0.0, hidden)
        hidden = hidden.to(y_ptr.dtype.element_ty)
        part_ptr += slice_.to(tl.int64) * part_rows * D
        store_part(hidden, rows, live, part_ptr, outer_ptr, slice_ * INNER_TILE, F, D, F, INNER_TILE, OUTPUT_TILE)


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def recurrence(
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    forget_ptr: tl.tensor,
    forget_bias_ptr: tl.tensor,
    candidate_ptr: tl.tensor,
    cell_ptr: tl.tensor,
    part_ptr: tl.tensor,
    D: tl.constexpr,
) -> None:
    """A step of the recurrent unit, see `SSRU`, a tile of outputs a program: updates cells [rows, D], and stores the
    only part."""
    rows = tl.program_id(0).to(tl.int64) * WIDE_ROW_TILE + tl.arange(0, WIDE_ROW_TILE)
    live = live_rows(rows, count, ended_ptr)
    if tl.max(live.to(tl.int32), 0) > 0:
        outputs = tl.program_id(1) * OUTPUT_TILE + tl.arange(0, OUTPUT_TILE)
        gate = product(y_ptr, rows, live, forget_ptr, outputs, D, D, INPUT_TILE)
        forget = 1.0 / (1.0 + tl.exp(-biased(gate, forget_bias_ptr, outputs, D)))
        candidate = product(y_ptr, rows, live, candidate_ptr, outputs, D, D, INPUT_TILE)
        at = rows[:, None] * D + outputs[None, :]
        inside = live[:, None] & (outputs < D)[None, :]
        cell = forget * tl.load(cell_ptr + at, mask=inside, other=0.0) + (1.0 - forget) * candidate
        tl.store(cell_ptr + at, cell, mask=inside)
        tl.store(part_ptr + at, tl.where(cell < 0.0, 0.0, cell), mask=inside)  # NaN stays
