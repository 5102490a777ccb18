"""The key/value cache of the decoder: allocated once, for a fixed number of rows.

`model.decoding` assigns sentences to rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from model.config import ModelConfig
from model.decoding.batch_invariance import UNTILED, Tiles
from model.packing import round_up
from model.transformer import Memory


def on_the_way(numbers: list[int], device: torch.device) -> Tensor:
    """`numbers` prepared for an asynchronous copy to `device`: in pinned memory, for a GPU."""
    tensor = torch.tensor(numbers)
    return tensor.pin_memory() if device.type == "cuda" else tensor


class KVCache:
    """A cache for `rows` sentences of at most `max_source` source and `max_target` target tokens.

    The live sentences are rows 0 to `len(lengths)` - 1, each at its own target position, `lengths[row]`, so that
    sentences may join and leave at any step. Nothing is ever concatenated: keys and values are written in place and
    read as slices as long as the longest live row.

    With `tiles` the slices have a multiple of `tiles.rows` rows, those beyond the live ones unused, and a multiple of
    `tiles.keys` keys.
    """

    def __init__(
        self,
        config: ModelConfig,
        rows: int,
        max_source: int,
        max_target: int,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
        tiles: Tiles = UNTILED,
    ) -> None:
        tiled_rows = round_up(rows, tiles.rows)
        source, target = round_up(max_source, tiles.keys), round_up(max_target, tiles.keys)

        def room(length: int) -> list[Tensor]:
            shape = (tiled_rows, config.num_heads, length, config.head_dim)  # [rows, heads, length, d_k]
            return [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.decoder_layers)]

        self.rows, self.max_source, self.max_target, self.tiles = rows, max_source, max_target, tiles
        self._keys, self._values = room(target), room(target)
        self._memory_keys, self._memory_values = room(source), room(source)
        self._source_mask = torch.zeros(tiled_rows, source, dtype=torch.bool, device=device)  # [rows, source]
        self._source_mask[:, 0] = True  # unused rows must attend to something too
        # The source without its end symbol; the cross-attention of the last step, and the sum of those before it.
        self._words = torch.zeros_like(self._source_mask)  # [rows, source]
        self._last_attention = torch.zeros(tiled_rows, source, device=device)  # [rows, source]
        self._coverage = torch.zeros_like(self._last_attention)
        self.device = self._source_mask.device
        # Fixed addresses, for a step that is captured in a CUDA graph.
        self._all_positions = torch.zeros(tiled_rows, dtype=torch.int64, device=device)  # [rows]
        self._all_rows = torch.arange(tiled_rows, device=device)  # [rows]
        self.lengths: list[int] = []
        self.source_lengths: list[int] = []

    def __len__(self) -> int:
        """Number of live rows."""
        return len(self.lengths)

    def admit(self, memory: Sequence[Memory], source_lengths: Sequence[int]) -> None:
        """Gives the sentences of one encoded batch the next free rows. The caller guarantees that they fit."""
        first, last = len(self), len(self) + len(source_lengths)
        assert last <= self.rows and max(source_lengths) <= self.max_source
        for layer, (key, value) in enumerate(memory):
            self._memory_keys[layer][first:last, :, : key.size(2)] = key
            self._memory_values[layer][first:last, :, : value.size(2)] = value
        steps = torch.arange(self._source_mask.size(1), device=self.device)
        lengths = torch.tensor(source_lengths, device=self.device)[:, None]
        self._source_mask[first:last], self._words[first:last] = steps < lengths, steps < lengths - 1
        self._last_attention[first:last] = 0
        self._coverage[first:last] = 0
        self.source_lengths.extend(source_lengths)
        self.lengths.extend([0] * len(source_lengths))

    @property
    def step_rows(self) -> int:
        """Number of rows in a step: live ones and those that fill the tile."""
        return round_up(len(self), self.tiles.rows)

    @property
    def _source_span(self) -> int:
        return round_up(max(self.source_lengths), self.tiles.keys)

    def begin_step(self) -> Tensor:
        """The position that each row writes in this step, [rows]; valid until `end_step`."""
        assert max(self.lengths) < self.max_target
        fill = [0] * (self.step_rows - len(self))
        self._positions, self._row_indices = self._all_positions[: self.step_rows], self._all_rows[: self.step_rows]
        self._positions.copy_(on_the_way(self.lengths + fill, self.device), non_blocking=True)
        self._span = round_up(max(self.lengths) + 1, self.tiles.keys)
        return self._positions

    def update(self, layer: int, key: Tensor, value: Tensor) -> Memory:
        """Writes one new key and value per row, [rows, heads, 1, d_k]; returns all so far, [rows, heads, target,
        d_k]."""
        self._keys[layer][self._row_indices, :, self._positions] = key[:, :, 0]
        self._values[layer][self._row_indices, :, self._positions] = value[:, :, 0]
        return self._keys[layer][: len(key), :, : self._span], self._values[layer][: len(key), :, : self._span]

    def mask(self) -> Tensor:
        """True at each row's target positions, including this step's: [rows, 1, 1, target]."""
        return (torch.arange(self._span, device=self.device) <= self._positions[:, None])[:, None, None, :]

    def memory(self, layer: int) -> Memory:
        """The cross-attention's keys and values, [rows, heads, source, d_k]."""
        keys, values = self._memory_keys[layer], self._memory_values[layer]
        return keys[: self.step_rows, :, : self._source_span], values[: self.step_rows, :, : self._source_span]

    def memory_mask(self) -> Tensor:
        """True at real source tokens, [rows, 1, 1, source]."""
        return self._source_mask[: self.step_rows, None, None, : self._source_span]

    def record_attention(self, cross: Sequence[Tensor]) -> Tensor:
        """Records a step's cross-attention, [rows, heads, 1, source] per layer; returns what each row attended to most,
        [rows]."""
        rows, span = cross[0].size(0), cross[0].size(-1)
        mean = torch.stack([weights[:, :, 0].float() for weights in cross]).mean((0, 2))  # [rows, source]
        self._coverage[:rows] += self._last_attention[:rows]
        self._last_attention[:rows, :span] = mean
        return mean.masked_fill(~self._words[:rows, :span], -1).argmax(-1)

    def coverage(self, rows: Sequence[int]) -> list[list[float]]:
        """The attention that each source token of each of `rows` received in all steps but the last."""
        seen: list[list[float]] = self._coverage[list(rows)].tolist()  # synchronises with a GPU only once
        return [row[: self.source_lengths[number]] for row, number in zip(seen, rows, strict=True)]

    @contextmanager
    def coverage_unchanged(self) -> Iterator[None]:
        """Discards what is recorded inside: for steps that belong to no sentence."""
        attention, coverage = self._last_attention.clone(), self._coverage.clone()
        yield
        self._last_attention.copy_(attention)
        self._coverage.copy_(coverage)

    def end_step(self) -> None:
        self.lengths = [length + 1 for length in self.lengths]

    def fork(self, rows: Sequence[int]) -> None:
        """Copies `rows` into the next free ones, in order."""
        first, last = len(self), len(self) + len(rows)
        assert last <= self.rows
        self.lengths += [self.lengths[row] for row in rows]
        self.source_lengths += [self.source_lengths[row] for row in rows]
        self._move(rows, range(first, last))

    def clean(self, rows: Sequence[int]) -> None:
        """Zeroes the values of `rows`, which may be NaN or infinite and are about to be dropped.

        They would break the next user of the row: values beyond its length are multiplied by 0, and 0 times NaN is NaN.
        """
        for tensor in (*self._values, *self._memory_values, self._last_attention, self._coverage):
            tensor[list(rows)] = 0

    def drop(self, rows: Sequence[int]) -> list[int]:
        """Frees `rows` and closes the gaps with the last live rows, so that the arithmetic stays dense.

        Returns for each remaining row its previous index.
        """
        dropped = set(rows)
        left = len(self) - len(dropped)
        order = list(range(left))
        holes = [row for row in order if row in dropped]
        movers = [row for row in range(left, len(self)) if row not in dropped]
        if holes:
            self._move(movers, holes)
        for hole, mover in zip(holes, movers, strict=True):
            order[hole] = mover
        self.lengths = [self.lengths[row] for row in order]
        self.source_lengths = [self.source_lengths[row] for row in order]
        return order

    def _move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        from_rows, to_rows = torch.tensor([list(sources), list(targets)], device=self.device)
        target = max(self.lengths[row] for row in sources)
        source = max(self.source_lengths[row] for row in sources)
        for tensor in (*self._keys, *self._values):
            tensor[to_rows, :, :target] = tensor[from_rows, :, :target]
        for tensor in (*self._memory_keys, *self._memory_values):
            tensor[to_rows, :, :source] = tensor[from_rows, :, :source]
        for tensor in (self._source_mask, self._words, self._last_attention, self._coverage):
            tensor[to_rows] = tensor[from_rows]
