"""Packs sentences of different lengths without padding, and unpacks them for attention.

Every matrix product of the encoder runs over the packed tokens, attention over the padded ones.
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
    """Token ids of `sources`, `</s>` added to each: packed they are [tokens, ...], spread [batch, source, ...].

    `tokens` is a multiple of `rows`, filled up with padding that no sentence sees, and `source` one of `keys`.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        config: ModelConfig,
        device: torch.device,
        rows: int = 1,
        keys: int = 1,
    ) -> None:
        self.lengths = [len(source) + 1 for source in sources]
        real, span = sum(self.lengths), round_up(max(self.lengths), keys)
        fill = round_up(real, rows) - real
        lengths = torch.tensor(self.lengths)
        starts = lengths.cumsum(0) - lengths  # positions of each sentence among the packed tokens, [batch]
        sentences = torch.repeat_interleave(lengths)  # [real]
        steps = torch.arange(real) - starts[sentences]  # [real]
        within = torch.arange(span) < lengths[:, None]  # [batch, source]
        ids = [*chain.from_iterable((*source, config.eos_id) for source in sources), *[config.pad_id] * fill]
        self.tokens = torch.tensor(ids, device=device)  # [tokens]
        self.positions = F.pad(steps, (0, fill)).to(device)  # [tokens]
        self.mask = within[:, None, None, :].to(device)
        """True at real tokens, [batch, 1, 1, source]."""
        # Padding repeats a sentence's own first token: another sentence's could be broken, and NaN times 0 is NaN.
        self._packed = (starts[:, None] + torch.arange(span) * within).flatten().to(device)  # [batch * source]
        self._spread = F.pad(sentences * span + steps, (0, fill)).to(device)  # [tokens]

    def spread(self, x: Tensor) -> Tensor:
        """x [tokens, width] to [batch, source, width]; values between sentences are undefined and must be masked."""
        return x.index_select(0, self._packed).view(len(self.lengths), -1, x.size(-1))

    def pack(self, x: Tensor) -> Tensor:
        """x [batch, source, width] to [tokens, width]; rows that fill up the tile repeat the first token."""
        return x.flatten(0, 1).index_select(0, self._spread)
