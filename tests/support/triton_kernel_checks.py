"""What each kernel of `model.triton` must compute: PyTorch's result in float64, and nothing outside its rows.

Tests run these in Triton's interpreter (`test_triton.py`) and on a GPU (`test_cuda.py`). Outputs and all that a kernel
must not read begin as NaN.
"""

from __future__ import annotations

import math
import random

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from model.triton.attention import cross_attention, encoder_attention, self_attention
from model.triton.choice import append, vocabulary
from model.triton.layers import combine, embed, feed_forward, project, recurrence
from model.triton.tiles import INNER_TILE, LENGTH, OUTPUT_TILE, STOP, TOKEN_TILE

NAN = math.nan
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2}


class Drawing:
    """Random shapes and tensors on `device`; `draw` is the generator of shapes."""

    def __init__(self, device: str, seed: int) -> None:
        self.device, self.draw = device, random.Random(seed)
        torch.manual_seed(seed)
        self.dtype = self.draw.choice([torch.float32, torch.float16])
        self.heads, self.d_k = self.draw.choice([(1, 5), (2, 16), (3, 9), (2, 40)])
        self.d = self.heads * self.d_k
        self.rows = self.draw.choice([1, 7, 21])
        self.head = {"D": self.d, "DK": self.d_k, "BLOCK": max(16, _power_of_2(self.d_k))}
        self.scale = 1 / math.sqrt(self.d_k)

    def normal(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.randn(shape).to(self.device, dtype or self.dtype)

    def weight(self, outputs: int, inputs: int) -> Tensor:
        return (torch.randn(outputs, inputs) / math.sqrt(inputs)).to(self.device, self.dtype)

    def poison(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.full(shape, NAN, dtype=dtype, device=self.device)

    def integers(self, least: int, most: int, *shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.randint(least, most + 1, shape, dtype=dtype).to(self.device)

    def ended(self) -> Tensor:
        """Of `rows` rows why they ended, 0 for those that run; at least one runs."""
        ended = (torch.rand(self.rows) < 0.3).int() * 2
        ended[self.draw.randrange(self.rows)] = 0
        return ended.to(self.device)

    def close(self, found: Tensor, expected: Tensor) -> None:
        """Compares numbers that were rounded to `dtype` on the way."""
        tolerance = TOLERANCES[self.dtype]
        torch.testing.assert_close(found.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def _power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _only(rows: Tensor, expected: Tensor, before: Tensor) -> Tensor:
    """`expected` in `rows`, and `before` in all others."""
    return torch.where(rows.view(-1, *[1] * (expected.dim() - 1)), expected.to(before.dtype), before)


def _norm(x: Tensor, norm: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], norm[0].double(), norm[1].double())


def check_combine(device: str, seed: int) -> None:
    for placement in ("pre", "post", "residual_post"):
        t = Drawing(device, seed)
        parts, ended = t.draw.randint(1, 5), t.ended()
        x, before = t.normal(t.rows, t.d, dtype=torch.float32), t.normal(2, t.d) if placement != "pre" else None
        added, bias = t.normal(parts, t.rows + 2, t.d, dtype=torch.float32), t.normal(t.d)
        after = t.draw.choice([None, t.normal(2, t.d)])
        y = t.poison(t.rows, t.d, dtype=t.dtype)
        term = added[:, : t.rows].double().sum(0) + bias.double()
        if placement == "residual_post":
            assert before is not None
            term = _norm(term, before)
        total = x.double() + term
        if placement == "post":
            assert before is not None
            total = _norm(total, before)
        expected_x, expected_y = _only(ended == 0, total, x), total if after is None else _norm(total, after)
        expected_y = _only(ended == 0, expected_y, y)
        combine[(t.rows + 3,)](
            x, y, t.rows, torch.cat((ended, ended[:1].expand(3))), added, parts, t.rows + 2, bias, before, after,
            D=t.d, BLOCK=_power_of_2(t.d), PLACEMENT=placement,
        )  # fmt: skip
        torch.testing.assert_close(x, expected_x, rtol=1e-4, atol=1e-4)
        t.close(y, expected_y)


def check_embed(device: str, seed: int) -> None:
    t = Drawing(device, seed)
    table, positions, after = t.normal(11, t.d), t.normal(9, t.d, dtype=torch.float32), t.normal(2, t.d)
    table[4] = 100.0
    tokens, places = t.integers(0, 10, t.rows), t.integers(0, 8, t.rows)
    tokens[0], ended = 4, t.ended()
    x, y = t.poison(t.rows, t.d), t.poison(t.rows, t.d, dtype=t.dtype)
    scaled = table.double()[tokens.long()] * 3.0
    scaled[tokens == 4] = 0
    total = scaled + positions.double()[places.long()]
    expected = _only(ended == 0, total, x), _only(ended == 0, _norm(total, after), y)
    embed[(t.rows,)](
        x, y, t.rows, ended, tokens, places, table, positions, after, 3.0, 4, D=t.d, BLOCK=_power_of_2(t.d)
    )
    torch.testing.assert_close(x, expected[0], rtol=1e-4, atol=1e-4, equal_nan=True)
    t.close(y, expected[1])


def check_project(device: str, seed: int) -> None:
    t = Drawing(device, seed)
    y, blocks = t.normal(t.rows, t.d), 2 * t.heads
    weight, bias = t.weight(blocks * t.d_k, t.d), t.draw.choice([None, t.normal(blocks * t.d_k)])
    out = t.poison(t.rows + 2, blocks, 5, t.d_k, dtype=t.dtype)  # rows, blocks, slots
    order = torch.randperm(t.rows + 2)[: t.rows].to(device)
    slots = t.integers(0, 4, t.rows, dtype=torch.int64)
    product = F.linear(y.double(), weight.double(), None if bias is None else bias.double())
    expected = out.clone()
    expected[order, :, slots] = product.view(t.rows, blocks, t.d_k).to(t.dtype)
    place = (order * blocks * 5 + slots) * t.d_k
    project[(triton.cdiv(t.rows, 64), blocks)](y, t.rows, weight, bias, out, place, 5 * t.d_k, **t.head)
    t.close(out, expected)


def check_feed_forward(device: str, seed: int) -> None:
    for swish in (False, True):
        t = Drawing(device, seed)
        inner, ended = t.draw.choice([1, 70, 200]), t.ended()
        slices = -(-inner // INNER_TILE.value)
        y, first, bias, second = t.normal(t.rows, t.d), t.weight(inner, t.d), t.normal(inner), t.weight(t.d, inner)
        y[ended != 0] = NAN
        parts = t.poison(slices, t.rows, t.d)
        hidden = F.linear(y.double(), first.double(), bias.double())
        hidden = F.silu(hidden) if swish else hidden.relu()
        expected = _only(ended == 0, F.linear(hidden, second.double()), parts.sum(0))
        feed_forward[(1, slices)](y, t.rows, ended, first, bias, second, parts, t.rows, D=t.d, F=inner, SWISH=swish)
        t.close(parts.sum(0), expected)


def check_recurrence(device: str, seed: int) -> None:
    t = Drawing(device, seed)
    y, forget, bias, candidate = t.normal(t.rows, t.d), t.weight(t.d, t.d), t.normal(t.d), t.weight(t.d, t.d)
    cells, part, ended = t.normal(t.rows, t.d, dtype=torch.float32), t.poison(t.rows, t.d), t.ended()
    y[ended != 0] = NAN
    gate = F.linear(y.double(), forget.double(), bias.double()).sigmoid()
    new = gate * cells + (1 - gate) * F.linear(y.double(), candidate.double())
    expected = _only(ended == 0, new, cells), _only(ended == 0, new.relu(), part)
    recurrence[(1, triton.cdiv(t.d, OUTPUT_TILE.value))](y, t.rows, ended, forget, bias, candidate, cells, part, D=t.d)
    t.close(cells, expected[0])
    t.close(part, expected[1])


def check_encoder_attention(device: str, seed: int) -> None:
    t = Drawing(device, seed)
    lengths = t.draw.sample([1, 2, 15, 16, 17, 33, 40], 3)
    qkv, output, tokens = t.normal(sum(lengths), 3 * t.d), t.weight(t.d, t.d), sum(lengths)
    starts = [sum(lengths[:number]) for number in range(len(lengths))]
    table = [[s + at, s, s + n] for s, n in zip(starts, lengths, strict=True) for at in range(0, n, 16)]
    parts = t.poison(t.heads, tokens + 1, t.d)
    expected = []
    for start, length in zip(starts, lengths, strict=True):
        own = qkv[start : start + length].double().view(length, 3, t.heads, t.d_k).permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(*own)  # [heads, length, d_k]
        expected.append(F.linear(attended.transpose(0, 1).flatten(1), output.double()))
    encoder_attention[(len(table), t.heads)](
        qkv, tokens, torch.tensor(table, device=device), output, parts, tokens + 1, t.scale, **t.head
    )
    t.close(parts[:, :tokens].sum(0), torch.cat(expected))
    assert parts[:, tokens:].isnan().all()


def _attention(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Of query [heads, d_k] and keys and values [heads, length, d_k]: the means [heads * d_k], and the scores."""
    scores = (keys @ query[:, :, None])[:, :, 0] * scale  # [heads, length]
    return (scores.softmax(-1)[:, None] @ values)[:, 0].flatten(), scores


def check_self_attention(device: str, seed: int) -> None:
    t = Drawing(device, seed)
    slots, ended = 24, t.ended()
    lengths = t.integers(0, slots - 1, t.rows)
    y, weight, bias = t.normal(t.rows, t.d), t.weight(3 * t.d, t.d), t.draw.choice([None, t.normal(3 * t.d)])
    y[ended != 0] = NAN
    output, cache = t.weight(t.d, t.d), t.normal(t.rows, 2 * t.heads, slots, t.d_k)
    for row in range(t.rows):
        cache[row, :, int(lengths[row]) :] = NAN
    parts, before = t.poison(t.heads, t.rows, t.d), cache.clone()
    projected = F.linear(y.double(), weight.double(), None if bias is None else bias.double())
    expected, expected_cache = parts.sum(0).double(), before.clone()
    for row in (ended == 0).nonzero().flatten().tolist():
        length = int(lengths[row])
        query, new = projected[row, : t.d].view(t.heads, t.d_k), projected[row, t.d :].view(2 * t.heads, t.d_k)
        expected_cache[row, :, length] = new.to(t.dtype)
        keys, values = expected_cache[row, :, : length + 1].double().chunk(2)
        expected[row] = F.linear(_attention(query, keys, values, t.scale)[0], output.double())
    self_attention[(triton.cdiv(t.rows, 16), t.heads)](
        y, t.rows, ended, lengths, weight, bias, output, cache, parts, t.rows, t.scale, SLOTS=slots, **t.head
    )
    t.close(parts.sum(0), expected)
    t.close(cache, expected_cache)


def check_cross_attention(device: str, seed: int) -> None:
    t = Drawing(device, seed)
    slots, ended, room = 24, t.ended(), t.rows + 3
    lengths = t.integers(1, slots, t.rows)
    y, weight, bias, output = t.normal(t.rows, t.d), t.weight(3 * t.d, t.d), t.normal(3 * t.d), t.weight(t.d, t.d)
    y[ended != 0] = NAN
    memory, parts = t.normal(t.rows, 2 * t.heads, slots, t.d_k), t.poison(t.heads, room, t.d)
    for row in range(t.rows):
        memory[row, :, int(lengths[row]) :] = NAN
    scores, softmax = t.poison(t.heads, room, slots), t.poison(t.heads, 2, room)
    expected, expected_scores, sums = parts.sum(0).double(), scores.double(), softmax.double()
    projected = F.linear(y.double(), weight[: t.d].double(), bias[: t.d].double())
    for row in (ended == 0).nonzero().flatten().tolist():
        keys, values = memory[row, :, : int(lengths[row])].double().chunk(2)
        means, found = _attention(projected[row].view(t.heads, t.d_k), keys, values, t.scale)
        expected[row] = F.linear(means, output.double())
        expected_scores[:, row, : int(lengths[row])] = found
        sums[:, 0, row] = found.amax(-1)
        sums[:, 1, row] = (found - found.amax(-1, keepdim=True)).exp().sum(-1)
    cross_attention[(triton.cdiv(t.rows, 16), t.heads)](
        y, t.rows, ended, lengths, weight, bias, output, memory, scores, softmax, parts, room, t.scale, SLOTS=slots,
        **t.head,
    )  # fmt: skip
    t.close(parts.sum(0), expected)
    t.close(scores, expected_scores)
    t.close(softmax, sums)


def check_vocabulary_and_append(device: str, seed: int) -> None:
    """Both kernels, as a step runs them: rows that end by a limit, by the end symbol and by NaN, and rows of -inf."""
    t = Drawing(device, seed)
    words, slots, target, eos = t.draw.choice([3, 128, 300]), 17, 9, 2
    tiles, heads, first = -(-words // TOKEN_TILE.value), 4, t.draw.randint(0, 2)
    y, weight = t.normal(t.rows, t.d), t.weight(words, t.d)
    bias, ended = t.draw.choice([None, t.normal(words)]), t.ended()
    if bias is not None:
        bias[eos] = t.draw.choice([-math.inf, 9.0])
    if t.rows > 1:
        y[t.draw.randrange(t.rows), 0] = NAN
    best, sums = t.poison(2, tiles, t.rows)
    found = t.integers(0, 2, tiles, t.rows)
    vocabulary[(1, tiles)](y, t.rows, ended, weight, bias, best, found, sums, t.rows, D=t.d, V=words)
    lengths, sources = t.integers(0, target - 1, t.rows), t.integers(1, slots, t.rows)
    limits = torch.minimum(lengths + t.integers(1, 2, t.rows), torch.tensor(target, device=device)).int()
    state = torch.stack((ended, lengths, limits, sources, t.integers(0, 1, t.rows), t.integers(0, 2, t.rows)))
    tokens, aligned = t.integers(50, 60, 2, t.rows, target)
    log_probs, scores = t.poison(t.rows, target), t.poison(heads, t.rows, slots)
    attention, coverage = t.normal(2, t.rows, slots, dtype=torch.float32)
    for row in range(t.rows):
        scores[:, row, : int(sources[row])] = t.normal(heads, int(sources[row]), dtype=torch.float32)
    real = scores.double().nan_to_num(-math.inf)
    softmax = torch.stack((real.amax(-1), (real - real.amax(-1, keepdim=True)).exp().sum(-1)), 1).float()
    before = [x.clone() for x in (state, tokens, aligned, log_probs, attention, coverage)]
    append[(t.rows,)](
        best, found, sums, tiles, scores, softmax, t.rows, first, heads, *state, tokens, log_probs, aligned, attention,
        coverage, EOS=eos, SOURCE_END=1, SLOTS=slots, MAX_TARGET=target, TILES_BLOCK=_power_of_2(tiles),
        SLOTS_BLOCK=_power_of_2(slots),
    )  # fmt: skip
    logits = F.linear(y.double(), weight.double(), None if bias is None else bias.double())
    weights = real.softmax(-1)[first:].mean(0)  # [rows, slots]
    old_state, old_tokens, old_aligned, old_log_probs, old_attention, old_coverage = before
    for row in range(t.rows):
        if ended[row]:
            for now, old in zip(
                (state.T, tokens, aligned, attention, coverage), (old_state.T, *before[1:3], *before[4:]), strict=True
            ):
                assert torch.equal(now[row], old[row])
            continue
        length, source, prefix = (int(old_state[number, row]) for number in (1, 3, 4))
        token, log_prob = int(tokens[row, length]), float(log_probs[row, length])
        t.close(torch.tensor(log_prob), logits[row].log_softmax(-1).max().cpu())
        is_nan = math.isnan(log_prob)
        assert is_nan or logits[row, token] >= logits[row].max() - 1e-5
        alignable = weights[row, prefix : source - 1]
        if alignable.numel():
            assert prefix <= int(aligned[row, length]) < source - 1
            assert weights[row, int(aligned[row, length])] >= alignable.max() - 1e-6
        is_over = is_nan or length + 1 >= int(old_state[2, row])
        reason = STOP.value if token == eos else LENGTH.value if is_over else 0
        assert state[:, row].tolist() == [reason, length + 1, *old_state[2:5, row].tolist(), token]
        torch.testing.assert_close(attention[row, :source].double(), weights[row, :source], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(coverage[row, :source], (old_coverage + old_attention)[row, :source])
        assert torch.equal(tokens[row, :length], old_tokens[row, :length])
        assert torch.equal(aligned[row, :length], old_aligned[row, :length])
        assert log_probs[row, :length].isnan().all()
    assert log_probs.isnan().sum() >= old_log_probs.numel() - t.rows


CHECKS = (
    check_combine,
    check_embed,
    check_project,
    check_feed_forward,
    check_recurrence,
    check_encoder_attention,
    check_self_attention,
    check_cross_attention,
    check_vocabulary_and_append,
)
