"""The key/value cache of the decoder, allocated once for a fixed number of rows.

`model.decoding.batch` assigns sentences to rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from model.config import ModelConfig
from model.decoding.batch_invariance import UNTILED, Tiles
from model.packing import round_up
from model.transformer import AlignmentHead, Memory


def staged(numbers: list[int], device: torch.device) -> Tensor:
    """`numbers` on the CPU, for a GPU in pinned memory, from where they can be copied asynchronously."""
    tensor = torch.tensor(numbers)
    return tensor.pin_memory() if device.type == "cuda" else tensor


class KVCache:
    """Keys and values of up to `rows` sentences, each of up to `max_source` source and `max_target` target tokens.

    The live sentences have rows 0 to `len(cache)` - 1. Each has its own target position, `lengths[row]`, so that
    sentences can join and leave at any step. Nothing is concatenated: keys and values are written in place, and read as
    slices as long as the longest live row. The slices have a multiple of `tiles.rows` rows, of which those after the
    live ones are unused, and a multiple of `tiles.keys` keys.
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

        def allocate(length: int) -> list[Tensor]:
            shape = (tiled_rows, config.num_heads, length, config.head_dim)  # [rows, heads, length, d_k]
            return [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.decoder_layers)]

        self.rows, self.max_source, self.max_target, self.tiles = rows, max_source, max_target, tiles
        is_recurrent = config.decoder == "ssru"
        self._keys, self._values = ([], []) if is_recurrent else (allocate(target), allocate(target))
        precise = torch.promote_types(dtype or torch.get_default_dtype(), torch.float32)
        self._cells = [  # [rows, d_model], in place of keys and values
            torch.zeros(tiled_rows, config.d_model, device=device, dtype=precise)
            for _ in range(config.decoder_layers * is_recurrent)
        ]
        self._alignment = config.alignment_layer, config.alignment_head
        self._memory_keys, self._memory_values = allocate(source), allocate(source)
        # [rows, source, alignment_size], which is 0 without an alignment head
        self._alignment_keys = torch.zeros(tiled_rows, source, config.alignment_size, device=device, dtype=dtype)
        self._source_mask = torch.zeros(tiled_rows, source, dtype=torch.bool, device=device)  # [rows, source]
        self._source_mask[:, 0] = True  # an unused row must have a key to attend to
        self._source_ends = int(config.source_eos)
        # Source tokens but the prefix, with and without the end symbol; the mean cross-attention of the last step, and
        # its sum over earlier steps.
        self._after_prefix = torch.zeros_like(self._source_mask)  # [rows, source]
        self._alignable = torch.zeros_like(self._source_mask)
        self._last_attention = torch.zeros(tiled_rows, source, device=device)  # [rows, source]
        self._coverage = torch.zeros_like(self._last_attention)
        self.device = self._source_mask.device
        # Their addresses stay the same, as a step that is captured in a CUDA graph requires.
        self._all_positions = torch.zeros(tiled_rows, dtype=torch.int64, device=device)  # [rows]
        self._all_rows = torch.arange(tiled_rows, device=device)  # [rows]
        self.lengths: list[int] = []
        self.source_lengths: list[int] = []

    def __len__(self) -> int:
        """Number of live rows."""
        return len(self.lengths)

    def admit(
        self,
        memory: Sequence[Memory],
        source_lengths: Sequence[int],
        prefix_lengths: Sequence[int] = (),
        alignment_keys: Tensor | None = None,
    ) -> None:
        """Stores an encoded batch, one pair in `memory` per layer, in the next free rows. It must fit.

        Keys and values are [sentences, heads, source, d_k]; source lengths include end symbols.
        `prefix_lengths`: the first tokens of each source, to which none is aligned; if empty, there are none.
        `alignment_keys` [sentences, source, alignment_size]: those of the alignment head, if there is one.
        """
        first, last = len(self), len(self) + len(source_lengths)
        assert last <= self.rows and max(source_lengths) <= self.max_source
        for layer, (key, value) in enumerate(memory):
            self._memory_keys[layer][first:last, :, : key.size(2)] = key
            self._memory_values[layer][first:last, :, : value.size(2)] = value
        if alignment_keys is not None:
            self._alignment_keys[first:last, : alignment_keys.size(1)] = alignment_keys
        steps = torch.arange(self._source_mask.size(1), device=self.device)  # [source]
        lengths = torch.tensor(source_lengths, device=self.device)[:, None]  # [sentences, 1]
        starts = torch.tensor(prefix_lengths or [0] * len(source_lengths), device=self.device)[
            :, None
        ]  # [sentences, 1]
        self._source_mask[first:last] = steps < lengths
        self._after_prefix[first:last] = (starts <= steps) & (steps < lengths)
        self._alignable[first:last] = (starts <= steps) & (steps < lengths - self._source_ends)
        for sums in (self._last_attention, self._coverage, *self._cells):
            sums[first:last] = 0
        self.source_lengths.extend(source_lengths)
        self.lengths.extend([0] * len(source_lengths))

    @property
    def step_rows(self) -> int:
        """Number of rows that a step computes: the live ones, and unused ones up to a multiple of the tile."""
        return round_up(len(self), self.tiles.rows)

    @property
    def _source_length(self) -> int:
        return round_up(max(self.source_lengths), self.tiles.keys)

    def begin_step(self) -> Tensor:
        """The target position that each row writes in this step, [rows]; valid until `end_step`."""
        assert max(self.lengths) < self.max_target
        fill = [0] * (self.step_rows - len(self))
        self._positions, self._row_indices = self._all_positions[: self.step_rows], self._all_rows[: self.step_rows]
        self._positions.copy_(staged(self.lengths + fill, self.device), non_blocking=True)
        self._target_length = round_up(max(self.lengths) + 1, self.tiles.keys)
        return self._positions

    def update(self, layer: int, key: Tensor, value: Tensor) -> Memory:
        """Writes each row's new key and value, [rows, heads, 1, d_k], at its position.

        Returns all keys and values of the layer so far, each [rows, heads, target, d_k].
        """
        keys, values = self._keys[layer], self._values[layer]  # [all rows, heads, max_target, d_k]
        keys[self._row_indices, :, self._positions] = key[:, :, 0]
        values[self._row_indices, :, self._positions] = value[:, :, 0]
        return keys[: len(key), :, : self._target_length], values[: len(key), :, : self._target_length]

    def advance(self, layer: int, forget: Tensor, update: Tensor) -> Tensor:
        """Replaces each row's cell of a recurrent layer by the next one; all [rows, 1, d_model]. See `SSRU`."""
        cells = self._cells[layer][: len(forget), None]  # [rows, 1, d_model]
        return cells.copy_(torch.addcmul(update, forget, cells))

    def mask(self) -> Tensor:
        """True at the target positions of each row, this step's included: [rows, 1, 1, target]."""
        return (torch.arange(self._target_length, device=self.device) <= self._positions[:, None])[:, None, None, :]

    def memory(self, layer: int) -> Memory:
        """Keys and values of a layer's cross-attention, each [rows, heads, source, d_k]."""
        keys, values = self._memory_keys[layer], self._memory_values[layer]
        return keys[: self.step_rows, :, : self._source_length], values[: self.step_rows, :, : self._source_length]

    def memory_mask(self) -> Tensor:
        """True at source tokens that are not padding, [rows, 1, 1, source]."""
        return self._source_mask[: self.step_rows, None, None, : self._source_length]

    def align(self, head: AlignmentHead, x: Tensor) -> Tensor:
        """The source token, the end symbol among them, that `head` scores highest for what a step's first decoder layer
        reads by cross-attention, x [rows, 1, d_model]: [rows]."""
        rows, length = self.step_rows, self._source_length
        scores: Tensor = head(x, self._alignment_keys[:rows, :length])[:, 0]  # [rows, source]
        return scores.masked_fill(~self._after_prefix[:rows, :length], -math.inf).argmax(-1)

    def record_attention(self, cross: Sequence[Tensor]) -> Tensor:
        """Records a step's cross-attention, one tensor [rows, heads, 1, source] per layer.

        Returns the source token that each row attended to most, [rows], in the head that was trained to align, or by
        the mean over layers and heads.
        """
        rows, length = cross[0].size(0), cross[0].size(-1)
        layer, head = self._alignment
        if layer is None:
            mean = torch.stack([weights[:, :, 0].float() for weights in cross]).mean((0, 2))  # [rows, source]
        else:
            mean = cross[layer][:, head, 0].float()  # [rows, source]
        self._coverage[:rows] += self._last_attention[:rows]
        self._last_attention[:rows, :length] = mean
        return mean.masked_fill(~self._alignable[:rows, :length], -1).argmax(-1)  # [rows]

    def coverage(self, rows: Sequence[int]) -> list[list[float]]:
        """The attention that each source token of each of `rows` received in all steps but the last."""
        sums: list[list[float]] = self._coverage[list(rows)].tolist()  # one transfer: each waits for a GPU
        return [found[: self.source_lengths[row]] for found, row in zip(sums, rows, strict=True)]

    @contextmanager
    def sums_unchanged(self) -> Iterator[None]:
        """Discards what steps inside this context add to coverage and recurrent cells: they belong to no sentence."""
        sums = self._last_attention, self._coverage, *self._cells
        before = [tensor.clone() for tensor in sums]
        yield
        for tensor, values in zip(sums, before, strict=True):
            tensor.copy_(values)

    def end_step(self) -> None:
        self.lengths = [length + 1 for length in self.lengths]

    def fork(self, rows: Sequence[int]) -> None:
        """Copies `rows` into the next free rows, in order."""
        first, last = len(self), len(self) + len(rows)
        assert last <= self.rows
        self.lengths += [self.lengths[row] for row in rows]
        self.source_lengths += [self.source_lengths[row] for row in rows]
        self._copy_rows(rows, range(first, last))

    def zero_values(self, rows: Sequence[int]) -> None:
        """Zeroes the values of `rows`, which may be NaN or infinite, before they are dropped.

        Otherwise they would break the next sentence of the row: attention multiplies values beyond its length by 0, and
        0 times NaN is NaN.
        """
        sums = self._last_attention, self._coverage
        for tensor in (*self._values, *self._memory_values, *self._cells, *sums):
            tensor[list(rows)] = 0

    def drop(self, rows: Sequence[int]) -> list[int]:
        """Frees `rows`, and moves the last live rows into the gaps, so that live rows stay contiguous.

        Returns the previous index of each remaining row.
        """
        dropped = set(rows)
        left = len(self) - len(dropped)
        order = list(range(left))
        holes = [row for row in order if row in dropped]
        movers = [row for row in range(left, len(self)) if row not in dropped]
        if holes:
            self._copy_rows(movers, holes)
        for hole, mover in zip(holes, movers, strict=True):
            order[hole] = mover
        self.lengths = [self.lengths[row] for row in order]
        self.source_lengths = [self.source_lengths[row] for row in order]
        return order

    def _copy_rows(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        from_rows, to_rows = torch.tensor([list(sources), list(targets)], device=self.device)
        target = max(self.lengths[row] for row in sources)
        source = max(self.source_lengths[row] for row in sources)
        for tensor in (*self._keys, *self._values):
            tensor[to_rows, :, :target] = tensor[from_rows, :, :target]
        for tensor in (*self._memory_keys, *self._memory_values):
            tensor[to_rows, :, :source] = tensor[from_rows, :, :source]
        self._alignment_keys[to_rows, :source] = self._alignment_keys[from_rows, :source]
        masks = self._source_mask, self._after_prefix, self._alignable
        for tensor in (*self._cells, *masks, self._last_attention, self._coverage):
            tensor[to_rows] = tensor[from_rows]
