"""Batch invariance: shapes of matrix products for which the bits of a row do not depend on the other rows.

Matrix libraries choose a kernel by the shape of a product, and kernels sum in different orders. Numbers of rows and
keys are therefore rounded up to multiples of a tile. `find_tiles` tests candidates on this machine: it compares the
results of all numbers of rows and keys that a tile leads to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.packing import round_up
from model.transformer import Linear, Transformer, dot_product_attention, replace_linears


@dataclass(frozen=True)
class Tiles:
    """The shapes of products: multiples of `rows` rows, up to `max_rows`, and of `keys` keys.

    If `max_rows` equals `rows`, all products have the same number of rows, and nothing needs comparing.
    """

    rows: int = 1
    max_rows: int | None = None
    keys: int = 1


UNTILED = Tiles()
ROW_TILES = ((16, 256), (16, 64), (64, 64))
"""Candidates for (rows, max_rows), fastest first."""
KEY_TILES = (16, 32, 64)
MIN_COMPARED = 2**19, 1
"""Numbers that products are compared in, at half precision and at full. Rounding to half precision hides another order
of summing in nearly all numbers: bfloat16 products of 1,024 inputs with AMX differed in one of 20,000."""
UNIFORM_ROWS = 16
"""Rows of all products with `uniform_tiles`."""


class TiledLinear(nn.Module):
    """A Linear that shares the parameters of another, and multiplies at most `max_rows` rows at once."""

    def __init__(self, linear: nn.Linear, tiles: Tiles) -> None:
        super().__init__()
        self.weight, self.bias, self.tiles = linear.weight, linear.bias, tiles

    def forward(self, x: Tensor) -> Tensor:
        return _product(x, self.weight, self.bias, self.tiles)

    def forward_range(self, x: Tensor, first: int, last: int) -> Tensor:
        return _product(x, self.weight[first:last], None if self.bias is None else self.bias[first:last], self.tiles)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, tiles: Tiles) -> Tensor:
    flat = x.flatten(0, -2)  # [rows, inputs]
    assert flat.size(0) % tiles.rows == 0
    if tiles.max_rows is None or flat.size(0) <= tiles.max_rows:
        return F.linear(x, weight, bias)
    parts = [F.linear(part, weight, bias) for part in _split(flat, tiles.max_rows)]
    return torch.cat(parts).view(*x.shape[:-1], -1)


def _split(x: Tensor, rows: int) -> list[Tensor]:
    return [x[first : first + rows] for first in range(0, len(x), rows)]


def with_tiled_products(model: Transformer, tiles: Tiles) -> Transformer:
    """A copy of `model` with tiled products, which shares its parameters."""
    return replace_linears(model, lambda linear: TiledLinear(linear, tiles))


def find_tiles(model: nn.Module, head_dim: int) -> Tiles:
    """The first candidate with which every row of `model`'s products has the same bits in any batch."""
    shapes = {(m.weight.dtype, m.out_features, m.in_features) for m in model.modules() if isinstance(m, Linear)}
    threads = torch.get_num_threads()
    rows, max_rows = _heights(frozenset(shapes), threads)
    return Tiles(rows, max_rows, _keys(next(model.parameters()).dtype, head_dim, threads))


def uniform_tiles(model: Transformer) -> Tiles:
    """Tiles that give all products the same number of rows: slower, but `find_tiles` takes time and memory for a large
    vocabulary."""
    keys = _keys(next(model.parameters()).dtype, model.config.head_dim, torch.get_num_threads())
    return Tiles(UNIFORM_ROWS, UNIFORM_ROWS, keys)


@cache
def _heights(shapes: frozenset[tuple[torch.dtype, int, int]], threads: int) -> tuple[int, int | None]:
    if not shapes:
        return UNTILED.rows, UNTILED.max_rows
    agreeing = (pair for pair in ROW_TILES[:-1] if all(_rows_agree(pair, shape) for shape in shapes))
    return next(agreeing, ROW_TILES[-1])


@cache
def _keys(dtype: torch.dtype, head_dim: int, threads: int) -> int:
    return next((keys for keys in KEY_TILES[:-1] if _keys_agree(keys, dtype, head_dim)), KEY_TILES[-1])


@torch.inference_mode()
def _rows_agree(pair: tuple[int, int], shape: tuple[torch.dtype, int, int]) -> bool:
    """Whether products of every multiple of `rows`, up to `max_rows`, give random rows the same bits at any place."""
    (rows, max_rows), (dtype, outputs, _) = pair, shape
    draws = math.ceil(MIN_COMPARED[dtype.itemsize > 2] / (max_rows * outputs))
    return all(_rows_agree_once(rows, max_rows, shape, seed) for seed in range(draws))


def _rows_agree_once(rows: int, max_rows: int, shape: tuple[torch.dtype, int, int], seed: int) -> bool:
    dtype, outputs, inputs = shape
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    x, weight, bias = draw(max_rows, inputs), draw(outputs, inputs) / math.sqrt(inputs), draw(outputs)
    alone = torch.cat([F.linear(tile, weight, bias) for tile in _split(x, rows)])
    order = torch.randperm(max_rows, generator=generator)
    if not torch.equal(torch.cat([F.linear(tile, weight, bias) for tile in _split(x[order], rows)]), alone[order]):
        return False
    heights = range(2 * rows, max_rows + 1, rows)
    return all(torch.equal(F.linear(x[:height], weight, bias), alone[:height]) for height in heights)


@torch.inference_mode()
def _keys_agree(keys: int, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether attention gives a sentence the same bits alone, over the fewest keys, and in a batch, over more keys."""
    generator = torch.Generator().manual_seed(0)
    sentences, heads, longest = 16, 4, 4 * KEY_TILES[-1]
    draws = [torch.randn(sentences, heads, longest, head_dim, generator=generator).to(dtype) for _ in range(3)]
    lengths = torch.randint(1, 3 * keys, (sentences,), generator=generator)

    def attended(first: int, last: int, step: bool, span: int) -> Tensor:
        """The attention of sentences `first` to `last` - 1 over `span` keys: for a decoder `step` of one query, else of
        as many as keys."""
        query, key, value = (x[first:last, :, :span] for x in draws)
        mask = (torch.arange(span) < lengths[first:last, None])[:, None, None]
        return dot_product_attention(query[:, :, :1] if step else query, key, value, mask)[0]

    for step in (True, False):
        alone = [attended(row, row + 1, step, round_up(n, keys))[0, :, :n] for row, n in enumerate(lengths.tolist())]
        for span in range(round_up(int(lengths.max()), keys), longest + 1, keys):
            for count in (1, 2, 3, 7, sentences):
                together = attended(0, count, step, span)
                if not all(
                    torch.equal(mixed[:, : own.size(1)], own) for mixed, own in zip(together, alone, strict=False)
                ):
                    return False
    return True
