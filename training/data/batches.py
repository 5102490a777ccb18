"""Batches of prepared pairs: by token budget, bucketed by length.

The order depends only on seed and epoch, so that two numbers give a position in it. It is computed from the lengths;
the tokens themselves are looked up batch by batch, in files that may be larger than memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.config import ModelConfig
from training.data.dataset import PreparedSummary, load_direction, load_tokenizers
from training.data.reverse import as_sources, changed_sources
from training.data.token_shards import Shards, TokenFiles

Integers = NDArray[Any]


@dataclass(frozen=True)
class RehearsedRows:
    """The rehearsed pairs of a batch, on which training matches the initial model's predictions."""

    rows: Tensor
    """[pairs] rows of the batch"""
    tokens: Tensor
    """[predictions] indices among all predictions of the batch"""
    others: Tensor
    """[predictions] indices of the other pairs' predictions"""
    target_positions: Tensor
    """[predictions] positions to predict in the flattened `tgt_out[rows]`"""

    @classmethod
    def of(cls, rehearsed: NDArray[np.bool_], tgt_out: Tensor, pad: int) -> RehearsedRows | None:
        """`rehearsed`: [batch]. Returns None if no pair is rehearsed."""
        if not rehearsed.any():
            return None
        chosen, predicted = torch.from_numpy(rehearsed), tgt_out != pad  # [batch], [batch, target]
        among = chosen[:, None].expand_as(predicted)[predicted]  # [predictions]
        target_positions = predicted[chosen].flatten().nonzero()[:, 0]
        return cls(chosen.nonzero()[:, 0], among.nonzero()[:, 0], among.logical_not().nonzero()[:, 0], target_positions)


@dataclass(frozen=True)
class Batch:
    """Padded token ids. src ends in `</s>`; tgt_in begins with `<s>`; tgt_out is the token that follows each."""

    src: Tensor
    """[batch, source]"""
    tgt_in: Tensor
    """[batch, target]"""
    tgt_out: Tensor
    """[batch, target], `pad_id` where nothing is to be predicted"""
    target_tokens: int
    """Target tokens with end symbols; of the whole batch, if this is one process's part of it."""
    target_positions: Tensor | None = None
    """[tokens] positions in the flattened `tgt_out` with something to predict, if known: to count them on a GPU would
    mean to wait for it."""
    rehearsed: RehearsedRows | None = None

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self

        def move(tensor: Tensor) -> Tensor:
            return tensor.pin_memory().to(device, non_blocking=True)

        target_positions = None if self.target_positions is None else move(self.target_positions)
        rehearsed = self.rehearsed
        if rehearsed is not None:
            indices = rehearsed.rows, rehearsed.tokens, rehearsed.others, rehearsed.target_positions
            rehearsed = RehearsedRows(*map(move, indices))
        src, tgt_in, tgt_out = map(move, (self.src, self.tgt_in, self.tgt_out))
        return Batch(src, tgt_in, tgt_out, self.target_tokens, target_positions, rehearsed)

    def doubled(self) -> Batch:
        """The batch concatenated with itself: two passes in one, each with its own dropout."""
        src, tgt_in, tgt_out = (tensor.repeat(2, 1) for tensor in (self.src, self.tgt_in, self.tgt_out))
        known = self.target_positions
        target_positions = None if known is None else torch.cat([known, known + self.tgt_out.numel()])
        return Batch(src, tgt_in, tgt_out, self.target_tokens, target_positions)


@dataclass(frozen=True)
class Ragged:
    """Sequences of token ids: sequence n is `lengths[n]` ids from `starts[n]` on, in memory or in files."""

    ids: NDArray[np.int32] | TokenFiles
    starts: Integers
    lengths: NDArray[Any]

    @classmethod
    def of(cls, sequences: list[list[int]]) -> Ragged:
        lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
        flat = np.fromiter((id for sequence in sequences for id in sequence), np.int32, int(lengths.sum()))
        return cls(flat, lengths.cumsum() - lengths, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def sequences(self, rows: Integers) -> list[list[int]]:
        """The sequences `rows`."""
        lengths = self.lengths[rows].astype(np.int64)
        ends = lengths.cumsum()
        positions = np.repeat(self.starts[rows] + lengths - ends, lengths) + np.arange(lengths.sum())
        ids = self.ids[positions].tolist()
        return [ids[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]

    def padded(self, rows: Integers, first: tuple[int, ...], last: int | None, pad: int) -> Tensor:
        """The sequences `rows`, with `first` before and, if given, `last` after each: [rows, longest]."""
        lengths = self.lengths[rows].astype(np.int64)
        begin = len(first)
        width = int(lengths.max()) + begin + int(last is not None)
        table = np.full((len(rows), width), pad, np.int64)
        within = np.arange(width - begin) < lengths[:, None]
        source = self.starts[rows][:, None] + np.arange(width - begin)
        table[:, begin:][within] = self.ids[source[within]]
        table[:, :begin] = first
        if last is not None:
            table[np.arange(len(rows)), begin + lengths] = last
        return torch.from_numpy(table)


@dataclass(frozen=True)
class Pairs:
    """Tokenised sentence pairs. `weights`: how often an epoch draws each, on average. `rehearsed`: [pairs] which
    targets the initial model made; None if it made none. The encoder reads `source_prefix` before each source; the
    decoder begins with `target_prefix`, which it does not learn to predict (see `model.directions`)."""

    source: Ragged
    target: Ragged
    weights: NDArray[np.float64]
    rehearsed: NDArray[np.bool_] | None = None
    source_prefix: tuple[int, ...] = ()
    target_prefix: tuple[int, ...] = ()

    @classmethod
    def of(cls, sources: list[list[int]], targets: list[list[int]]) -> Pairs:
        return cls(Ragged.of(sources), Ragged.of(targets), np.ones(len(sources)))

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, rows: Integers, config: ModelConfig, part: int = 0, parts: int = 1) -> Batch:
        """The batch of the pairs `rows`; or part `part` of `parts` of it, with similar lengths in each.

        A part without any pair gets one to compute on, with nothing to predict.
        """
        mine = rows[part::parts]
        shown = mine if len(mine) else rows[:1]
        src = self.source.padded(shown, self.source_prefix, config.eos_id if config.source_eos else None, config.pad_id)
        tgt_in = self.target.padded(shown, (config.bos_id, *self.target_prefix), None, config.pad_id)
        nothing = (config.pad_id,) * len(self.target_prefix)
        tgt_out = self.target.padded(shown, nothing, config.eos_id, config.pad_id)
        if not len(mine):
            tgt_out.fill_(config.pad_id)
        tokens = int(self.target.lengths[rows].sum(dtype=np.int64)) + len(rows)
        rehearsed = None
        if self.rehearsed is not None:
            rehearsed = RehearsedRows.of(self.rehearsed[shown], tgt_out, config.pad_id)
        target_positions = (tgt_out != config.pad_id).flatten().nonzero()[:, 0]
        return Batch(src, tgt_in, tgt_out, tokens, target_positions, rehearsed)


def load_pairs(data: Path, reverse: bool = False) -> tuple[Pairs, dict[str, Any]]:
    """The training pairs of a data folder, memory-mapped, and its record (`prepared.json`).

    `reverse` swaps source and target, see `training.data.reverse`: sources are spelt as sources, and no copy is drawn
    whose target was not to be learnt. Raises ValueError, with a one-line message, if the folder is not a data folder,
    of another version, or incomplete, or has no other direction.
    """
    summary = PreparedSummary.load(data, reverse)
    shards = Shards.open(data, summary.files, summary.vocab_size)
    source, target = (Ragged(shards.tokens, shards.starts[:, side], shards.lengths[:, side]) for side in (0, 1))
    weights = np.array([corpus["weight"] for corpus in summary.corpora], np.float64)
    same = np.broadcast_to(weights[0], len(source))  # takes no memory
    each = same if (weights == weights[0]).all() else weights[shards.corpora]
    repeats = np.array([bool(corpus.get("rehearsed")) for corpus in summary.corpora])
    rehearsed = repeats[shards.corpora] if repeats.any() else None
    if reverse:
        where = shards.tokens, target.starts, target.lengths
        if len(unwanted := changed_sources(*where, summary.own_pairs, summary.augmented_copies)):
            each = each.copy()
            each[unwanted] = 0
        spelt = as_sources(*where, load_tokenizers(data).source, summary.options["max_tokens"])
        source, target = Ragged(*spelt), source
    pairs = Pairs(source, target, each, rehearsed, *load_direction(data, reverse).prefixes)
    return pairs, dataclasses.asdict(summary)


def epoch_rows(pairs: Pairs, batch_tokens: int, seed: int, epoch: int) -> list[Integers]:
    """The rows of each batch of one epoch, in order.

    A pair of weight w is drawn floor(w) times, and once more with the probability of the remainder. Pairs of similar
    lengths share a batch, to minimise padding; the choice of pairs, and the order of batches, are shuffled. A batch's
    rows times its longest side, end symbol included, is at most `batch_tokens`, unless a single pair exceeds it.
    """
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    times = np.floor(pairs.weights + random.random(len(pairs))).astype(np.uint32)
    rows = random.permutation(np.repeat(np.arange(len(pairs), dtype=np.uint32), times))
    source, target = (side.lengths[rows].astype(np.int32) + 1 for side in (pairs.source, pairs.target))
    # Within each target length, source lengths ascend and descend in turn, so that neighbours stay similar across
    # boundaries.
    order = np.lexsort((np.where(target % 2, source, -source), target))
    rows, longest = rows[order], np.maximum(source, target)[order]
    batches, first = [], 0
    while first < len(rows):
        # A batch is at least as wide as its first row, which bounds the number of rows.
        widths = np.maximum.accumulate(longest[first : first + batch_tokens // int(longest[first])])
        count = max(1, int((widths * np.arange(1, len(widths) + 1) <= batch_tokens).sum()))
        batches.append(rows[first : first + count])
        first += count
    return [batches[number] for number in random.permutation(len(batches))]


@dataclass
class Position:
    """A position in the data: the next batch is number `batch` of `epoch`."""

    epoch: int = 0
    batch: int = 0


Resegment = Callable[[Pairs, Integers, Position], Pairs]
"""Segments the pairs of some rows again for the batch at a position; returns them in the order of the rows."""


def batches_from(
    pairs: Pairs,
    config: ModelConfig,
    batch_tokens: int,
    seed: int,
    position: Position,
    part: int = 0,
    parts: int = 1,
    resegment: Resegment | None = None,
) -> Iterator[Batch]:
    """Endless batches from `position` on, which is advanced; or part `part` of `parts` of each.

    Stored lengths decide which pairs share a batch, whatever `resegment` makes of them.
    """
    while True:
        epoch = epoch_rows(pairs, batch_tokens, seed, position.epoch)
        while position.batch < len(epoch):
            drawn, rows = pairs, epoch[position.batch]
            if resegment is not None:
                drawn, rows = resegment(pairs, rows, position), np.arange(len(rows))
            batch = drawn.batch(rows, config, part, parts)
            position.batch += 1
            yield batch
        position.epoch, position.batch = position.epoch + 1, 0
