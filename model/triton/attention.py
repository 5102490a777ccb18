"""Kernels of attention, each with its output projection.

Loops end at a row's own length, so no mask of another length, and no value of an earlier sentence, is ever read.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from model.triton.tiles import (
    CHUNK,
    INPUT_TILE,
    KEY_TILE,
    OUTPUT_TILE,
    ROW_TILE,
    biased,
    live_rows,
    product,
    store_part,
)


@triton.jit(do_not_specialize=["count", "part_rows"])  # type: ignore[untyped-decorator]
def encoder_attention(
    qkv_ptr: tl.tensor,
    count: tl.tensor,
    tile_ptr: tl.tensor,
    out_ptr: tl.tensor,
    part_ptr: tl.tensor,
    part_rows: tl.tensor,
    scale: tl.tensor,
    D: tl.constexpr,
    DK: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Self-attention of packed sentences, qkv [tokens, 3 * D], and its output projection: a tile of one sentence's
    queries and a head a program. tiles [tiles, 3]: a tile's first token, and the first and last + 1 of its sentence."""
    tile_ptr += tl.program_id(0) * 3
    head = tl.program_id(1)
    first, start, end = tl.load(tile_ptr), tl.load(tile_ptr + 1), tl.load(tile_ptr + 2)
    rows = (first + tl.arange(0, ROW_TILE)).to(tl.int64)
    live = rows < end
    within = tl.arange(0, BLOCK)
    inside = (within < DK)[None, :]
    qkv_ptr += head * DK
    query = tl.load(qkv_ptr + rows[:, None] * 3 * D + within[None, :], mask=live[:, None] & inside, other=0.0)
    maximum = tl.full((ROW_TILE,), -float("inf"), tl.float32)
    total = tl.zeros((ROW_TILE,), tl.float32)
    mean = tl.zeros((ROW_TILE, BLOCK), tl.float32)
    for at in range(start, end, KEY_TILE):
        keys = (at + tl.arange(0, KEY_TILE)).to(tl.int64)
        known = keys < end
        from_ptr = qkv_ptr + keys[:, None] * 3 * D + within[None, :]
        key = tl.load(from_ptr + D, mask=known[:, None] & inside, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        scores = tl.where(known[None, :], scores, -float("inf"))
        higher = tl.maximum(maximum, tl.max(scores, 1))
        rescale = tl.exp(maximum - higher)
        weights = tl.exp(scores - higher[:, None])
        value = tl.load(from_ptr + 2 * D, mask=known[:, None] & inside, other=0.0)
        mean = mean * rescale[:, None] + tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        total = total * rescale + tl.sum(weights, 1)
        maximum = higher
    context = (mean / total[:, None]).to(qkv_ptr.dtype.element_ty)
    part_ptr += head.to(tl.int64) * part_rows * D
    store_part(context, rows, live, part_ptr, out_ptr, head * DK, (head + 1) * DK, D, D, BLOCK, OUTPUT_TILE)


@triton.jit  # type: ignore[untyped-decorator]
def _scores(
    query: tl.tensor, key_ptr: tl.tensor, keys: tl.tensor, length: tl.tensor, inside: tl.tensor, DK: tl.constexpr
) -> Any:
    """The scores of queries [rows, d_k] for chunk `keys` of each row's own keys, -inf from `length` on."""
    known = keys[None, :] < length[:, None]  # [rows, keys]
    within = tl.arange(0, query.shape[1])
    at = key_ptr[:, None, None] + keys[None, :, None] * DK + within[None, None, :]
    key = tl.load(at, mask=known[:, :, None] & inside[None, None, :], other=0.0).to(tl.float32)
    return tl.where(known, tl.sum(query[:, None, :] * key, 2), -float("inf"))


@triton.jit  # type: ignore[untyped-decorator]
def _attended(
    scores: tl.tensor,
    maximum: tl.tensor,
    total: tl.tensor,
    mean: tl.tensor,
    value_ptr: tl.tensor,
    keys: tl.tensor,
    length: tl.tensor,
    inside: tl.tensor,
    DK: tl.constexpr,
) -> Any:
    """The softmax's state after one more chunk of keys. A chunk beyond a row's length changes no bit of its state."""
    known = keys[None, :] < length[:, None]
    within = tl.arange(0, mean.shape[1])
    higher = tl.maximum(maximum, tl.max(scores, 1))
    shift = tl.where(higher == -float("inf"), 0.0, higher)  # of rows that do not run
    rescale = tl.exp(maximum - shift)
    weights = tl.exp(scores - shift[:, None])
    at = value_ptr[:, None, None] + keys[None, :, None] * DK + within[None, None, :]
    value = tl.load(at, mask=known[:, :, None] & inside[None, None, :], other=0.0).to(tl.float32)
    mean = mean * rescale[:, None] + tl.sum(weights[:, :, None] * value, 1)
    return higher, total * rescale + tl.sum(weights, 1), mean


@triton.jit(do_not_specialize=["count", "part_rows"])  # type: ignore[untyped-decorator]
def self_attention(
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    length_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    bias_ptr: tl.tensor,
    out_ptr: tl.tensor,
    cache_ptr: tl.tensor,
    part_ptr: tl.tensor,
    part_rows: tl.tensor,
    scale: tl.tensor,
    D: tl.constexpr,
    DK: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """A decoder step's self-attention, a tile of rows and a head a program: query, key and value of y [rows, D], the
    latter two written to cache [rows, 2 * heads, SLOTS, d_k] at the row's length; attention to it and to what is there
    before; and the output projection, one part. The new key comes first in the sum, then chunks of earlier ones."""
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    rows = tl.program_id(0).to(tl.int64) * ROW_TILE + tl.arange(0, ROW_TILE)
    live = live_rows(rows, count, ended_ptr)
    if tl.max(live.to(tl.int32), 0) > 0:
        length = tl.load(length_ptr + rows, mask=live, other=0)
        within = tl.arange(0, BLOCK)
        inside = within < DK
        kind = cache_ptr.dtype.element_ty
        outputs, last = head * DK + within, (head + 1) * DK
        query = product(y_ptr, rows, live, weight_ptr, outputs, last, D, INPUT_TILE)
        query = biased(query, bias_ptr, outputs, last).to(kind).to(tl.float32) * scale
        key = product(y_ptr, rows, live, weight_ptr, D + outputs, D + last, D, INPUT_TILE)
        key = biased(key, bias_ptr, D + outputs, D + last).to(kind)
        value = product(y_ptr, rows, live, weight_ptr, 2 * D + outputs, 2 * D + last, D, INPUT_TILE)
        value = biased(value, bias_ptr, 2 * D + outputs, 2 * D + last).to(kind)
        key_ptr = cache_ptr + (rows * 2 * heads + head) * SLOTS * DK
        value_ptr = key_ptr + heads.to(tl.int64) * SLOTS * DK
        new = (length * DK)[:, None] + within[None, :]
        tl.store(key_ptr[:, None] + new, key, mask=live[:, None] & inside[None, :])
        tl.store(value_ptr[:, None] + new, value, mask=live[:, None] & inside[None, :])
        maximum = tl.sum(query * key.to(tl.float32), 1)
        total = tl.full((ROW_TILE,), 1.0, tl.float32)
        mean = value.to(tl.float32)
        for start in range(0, tl.max(length, 0), CHUNK):
            keys = start + tl.arange(0, CHUNK)
            scores = _scores(query, key_ptr, keys, length, inside, DK)
            maximum, total, mean = _attended(scores, maximum, total, mean, value_ptr, keys, length, inside, DK)
        context = (mean / total[:, None]).to(kind)
        part_ptr += head.to(tl.int64) * part_rows * D
        store_part(context, rows, live, part_ptr, out_ptr, head * DK, last, D, D, BLOCK, OUTPUT_TILE)


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def align(
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    length_ptr: tl.tensor,
    source_length_ptr: tl.tensor,
    source_prefix_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    bias_ptr: tl.tensor,
    key_ptr: tl.tensor,
    aligned_ptr: tl.tensor,
    D: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    SLOTS: tl.constexpr,
    MAX_TARGET: tl.constexpr,
) -> None:
    """The alignment head, a tile of rows a program: queries of y [rows, D], what the first decoder layer's
    cross-attention reads, and keys [rows, SLOTS, SIZE]. Stores in aligned [rows, MAX_TARGET] the source token with the
    highest score, of equal ones the first, for the target token that a row reads: the last of its tokens so far. The
    end symbol is one of them."""
    rows = tl.program_id(0).to(tl.int64) * ROW_TILE + tl.arange(0, ROW_TILE)
    live = live_rows(rows, count, ended_ptr)
    if tl.max(live.to(tl.int32), 0) > 0:
        length = tl.load(length_ptr + rows, mask=live, other=0)
        first = tl.load(source_prefix_ptr + rows, mask=live, other=0)
        end = tl.load(source_length_ptr + rows, mask=live, other=0)
        within = tl.arange(0, BLOCK)
        query = biased(product(y_ptr, rows, live, weight_ptr, within, SIZE, D, INPUT_TILE), bias_ptr, within, SIZE)
        query = query.to(key_ptr.dtype.element_ty).to(tl.float32)
        highest = tl.full((ROW_TILE,), -float("inf"), tl.float32)
        best = first
        for start in range(0, tl.max(end, 0), CHUNK):
            keys = start + tl.arange(0, CHUNK)
            scores = _scores(query, key_ptr + rows * SLOTS * SIZE, keys, end, within < SIZE, SIZE)
            scores = tl.where(keys[None, :] >= first[:, None], scores, -float("inf"))
            score, place = tl.max(scores, 1, return_indices=True)
            best = tl.where(score > highest, start + place, best)
            highest = tl.maximum(highest, score)
        tl.store(aligned_ptr + rows * MAX_TARGET + length - 1, best, mask=live & (length > 0))


@triton.jit(do_not_specialize=["count", "part_rows"])  # type: ignore[untyped-decorator]
def cross_attention(
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    length_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    bias_ptr: tl.tensor,
    out_ptr: tl.tensor,
    memory_ptr: tl.tensor,
    score_ptr: tl.tensor,
    softmax_ptr: tl.tensor,
    part_ptr: tl.tensor,
    part_rows: tl.tensor,
    scale: tl.tensor,
    D: tl.constexpr,
    DK: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """A decoder step's attention to the source, memory [rows, 2 * heads, SLOTS, d_k]; else as `self_attention`. Also
    stores scores [heads, part_rows, SLOTS], and maximum and sum of their softmax, [heads, 2, part_rows]."""
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    rows = tl.program_id(0).to(tl.int64) * ROW_TILE + tl.arange(0, ROW_TILE)
    live = live_rows(rows, count, ended_ptr)
    if tl.max(live.to(tl.int32), 0) > 0:
        length = tl.load(length_ptr + rows, mask=live, other=0)
        within = tl.arange(0, BLOCK)
        inside = within < DK
        kind = memory_ptr.dtype.element_ty
        outputs, last = head * DK + within, (head + 1) * DK
        query = product(y_ptr, rows, live, weight_ptr, outputs, last, D, INPUT_TILE)
        query = biased(query, bias_ptr, outputs, last).to(kind).to(tl.float32) * scale
        key_ptr = memory_ptr + (rows * 2 * heads + head) * SLOTS * DK
        value_ptr = key_ptr + heads.to(tl.int64) * SLOTS * DK
        row_scores = score_ptr + (head.to(tl.int64) * part_rows + rows) * SLOTS
        maximum = tl.full((ROW_TILE,), -float("inf"), tl.float32)
        total = tl.zeros((ROW_TILE,), tl.float32)
        mean = tl.zeros((ROW_TILE, BLOCK), tl.float32)
        for start in range(0, tl.max(length, 0), CHUNK):
            keys = start + tl.arange(0, CHUNK)
            scores = _scores(query, key_ptr, keys, length, inside, DK)
            tl.store(row_scores[:, None] + keys[None, :], scores, mask=keys[None, :] < length[:, None])
            maximum, total, mean = _attended(scores, maximum, total, mean, value_ptr, keys, length, inside, DK)
        at = head.to(tl.int64) * 2 * part_rows + rows
        tl.store(softmax_ptr + at, maximum, mask=live)
        tl.store(softmax_ptr + at + part_rows, total, mask=live)
        context = (mean / tl.where(live, total, 1.0)[:, None]).to(kind)
        part_ptr += head.to(tl.int64) * part_rows * D
        store_part(context, rows, live, part_ptr, out_ptr, head * DK, last, D, D, BLOCK, OUTPUT_TILE)
