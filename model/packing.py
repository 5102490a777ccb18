"""Packs sentences of different lengths end to end, without padding, and unpacks them for attention.

The encoder's matrix products run over the packed tokens; attention needs the sentences apart, and padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor
from torch.nn import functional as F

from model.config import ModelConfig


def round_up(number: int, unit: int) -> int:
    """The smallest multiple of `unit` that is at least `number`."""
    return -(-number // unit) * unit


class Packing:
    """The token ids of `sources`, with their end symbols, and the way between packed and unpacked tensors.

    Packed tensors are [tokens, ...], unpacked ones [batch, source, ...]. `tokens` is rounded up to a multiple of `rows`
    with padding that belongs to no sentence, and `source` to a multiple of `keys`.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        config: ModelConfig,
        device: torch.device,
        rows: int = 1,
        keys: int = 1,
    ) -> None:
        self.lengths = [len(source) + config.source_ends(len(source)) for source in sources]
        real, source_length = sum(self.lengths), round_up(max(self.lengths), keys)
        fill = round_up(real, rows) - real
        lengths = torch.tensor(self.lengths)
        starts = lengths.cumsum(0) - lengths  # [batch], where each sentence begins among the packed tokens
        sentences = torch.repeat_interleave(lengths)  # [real], the sentence of each token
        steps = torch.arange(real) - starts[sentences]  # [real], the position of each token in its sentence
        within = torch.arange(source_length) < lengths[:, None]  # [batch, source]
        ids = [*chain.from_iterable(map(config.source_ids, sources)), *[config.pad_id] * fill]
        self.tokens = torch.tensor(ids, device=device)  # [tokens]
        self.positions = F.pad(steps, (0, fill)).to(device)  # [tokens]
        self.mask = within[:, None, None, :].to(device)
        """True at real tokens, [batch, 1, 1, source]."""
        # Padding repeats a token of its own sentence: one of another sentence may be NaN, and NaN times 0 is NaN.
        packed = starts[:, None] + torch.arange(source_length) * within  # [batch, source]
        self._packed_indices = packed.flatten().to(device)  # [batch * source]
        self._unpacked_indices = F.pad(sentences * source_length + steps, (0, fill)).to(device)  # [tokens]

    def unpack(self, x: Tensor) -> Tensor:
        """x [tokens, width] to [batch, source, width]. Values at padding are arbitrary, and must be masked."""
        return x.index_select(0, self._packed_indices).view(len(self.lengths), -1, x.size(-1))

    def pack(self, x: Tensor) -> Tensor:
        """x [batch, source, width] to [tokens, width]. Rows of padding repeat the first token."""
        return x.flatten(0, 1).index_select(0, self._unpacked_indices)
