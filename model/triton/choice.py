"""Kernels that choose the next token and append it to its sentence. Logits never reach memory."""

from __future__ import annotations

import triton
import triton.language as tl

from model.triton.tiles import INPUT_TILE, LENGTH, STOP, TOKEN_TILE, WIDE_ROW_TILE, biased, live_rows, product


@triton.jit(do_not_specialize=["count", "part_rows"])  # type: ignore[untyped-decorator]
def vocabulary(
    y_ptr: tl.tensor,
    count: tl.tensor,
    ended_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    bias_ptr: tl.tensor,
    best_ptr: tl.tensor,
    token_ptr: tl.tensor,
    sum_ptr: tl.tensor,
    part_rows: tl.tensor,
    D: tl.constexpr,
    V: tl.constexpr,
) -> None:
    """The logits of TOKEN_TILE tokens a program, of which only the highest, its token, and the sum of exp(logit -
    highest) are stored: each [tiles, part_rows]. The sum is NaN if a logit is."""
    tile = tl.program_id(1)
    rows = tl.program_id(0).to(tl.int64) * WIDE_ROW_TILE + tl.arange(0, WIDE_ROW_TILE)
    live = live_rows(rows, count, ended_ptr)
    if tl.max(live.to(tl.int32), 0) > 0:
        tokens = tile * TOKEN_TILE + tl.arange(0, TOKEN_TILE)
        logits = product(y_ptr, rows, live, weight_ptr, tokens.to(tl.int64), V, D, INPUT_TILE)
        logits = biased(logits, bias_ptr, tokens, V)
        logits = tl.where((tokens < V)[None, :], logits, -float("inf"))
        known = tl.where(logits == logits, logits, -float("inf"))  # all but NaN
        best, best_token = tl.max(known, 1, return_indices=True)
        at = tile * part_rows + rows
        tl.store(best_ptr + at, best, mask=live)
        tl.store(token_ptr + at, tile * TOKEN_TILE + best_token, mask=live)
        shift = tl.where(best == -float("inf"), 0.0, best)  # a tile without any number
        tl.store(sum_ptr + at, tl.sum(tl.exp(logits - shift[:, None]), 1), mask=live)


@triton.jit(do_not_specialize=["part_rows", "first_head", "last_head"])  # type: ignore[untyped-decorator]
def append(
    best_ptr: tl.tensor,
    token_ptr: tl.tensor,
    sum_ptr: tl.tensor,
    tiles: tl.constexpr,
    score_ptr: tl.tensor,
    softmax_ptr: tl.tensor,
    part_rows: tl.tensor,
    first_head: tl.tensor,
    last_head: tl.tensor,
    ended_ptr: tl.tensor,
    length_ptr: tl.tensor,
    limit_ptr: tl.tensor,
    source_length_ptr: tl.tensor,
    source_prefix_ptr: tl.tensor,
    last_ptr: tl.tensor,
    tokens_ptr: tl.tensor,
    log_probs_ptr: tl.tensor,
    aligned_ptr: tl.tensor,
    attention_ptr: tl.tensor,
    coverage_ptr: tl.tensor,
    EOS: tl.constexpr,
    SOURCE_END: tl.constexpr,
    SLOTS: tl.constexpr,
    MAX_TARGET: tl.constexpr,
    TILES_BLOCK: tl.constexpr,
    SLOTS_BLOCK: tl.constexpr,
) -> None:
    """Ends a step, a row a program: chooses the token with the highest logit, of equal ones the first; appends it, its
    log probability and the source token that it is aligned to; and detects the end. The attention is the mean over the
    heads `first_head` to `last_head` - 1, counted through all layers; coverage sums it over all steps but the last."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(ended_ptr + row) == 0:
        tile = tl.arange(0, TILES_BLOCK)
        best = tl.load(best_ptr + tile * part_rows + row, mask=tile < tiles, other=-float("inf"))
        sums = tl.load(sum_ptr + tile * part_rows + row, mask=tile < tiles, other=0.0)
        found = tl.load(token_ptr + tile * part_rows + row, mask=tile < tiles, other=0)
        highest = tl.max(best, 0)
        token = tl.min(tl.where(best == highest, found, 2147483647), 0)
        # The log of softmax at the highest logit. NaN where no tile has a number, by -inf - -inf.
        log_prob = -tl.log(tl.sum(tl.where(tile < tiles, sums * tl.exp(best - highest), 0.0), 0))

        slot = tl.arange(0, SLOTS_BLOCK)
        source_length = tl.load(source_length_ptr + row)
        inside = slot < source_length
        attention = tl.zeros((SLOTS_BLOCK,), tl.float32)
        for head in range(first_head, last_head):
            at = head * 2 * part_rows + row
            maximum, total = tl.load(softmax_ptr + at), tl.load(softmax_ptr + at + part_rows)
            score_at = score_ptr + (head * part_rows + row) * SLOTS + slot
            attention += tl.exp(tl.load(score_at, mask=inside, other=-float("inf")) - maximum) / total
        attention = attention / (last_head - first_head)
        alignable = (slot >= tl.load(source_prefix_ptr + row)) & (slot < source_length - SOURCE_END)
        aligned = tl.argmax(tl.where(alignable & (attention == attention), attention, -1.0), 0)
        at = row * SLOTS + slot
        covered = tl.load(coverage_ptr + at, mask=inside, other=0.0)
        tl.store(coverage_ptr + at, covered + tl.load(attention_ptr + at, mask=inside, other=0.0), mask=inside)
        tl.store(attention_ptr + at, attention, mask=inside)

        length = tl.load(length_ptr + row)
        end = row * MAX_TARGET + length
        tl.store(tokens_ptr + end, token)
        tl.store(log_probs_ptr + end, log_prob)
        tl.store(aligned_ptr + end, aligned)
        tl.store(last_ptr + row, token)
        tl.store(length_ptr + row, length + 1)
        over = (log_prob != log_prob) | (length + 1 >= tl.load(limit_ptr + row))
        tl.store(ended_ptr + row, tl.where(token == EOS, STOP, tl.where(over, LENGTH, 0)))
