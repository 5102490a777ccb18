"""What the GPU keeps of the sentences in decoding: their tokens, keys and values, and why they ended."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.config import ModelConfig
from model.decoding.kv_cache import staged
from model.hypothesis import Hypothesis, Limits
from model.packing import round_up

UNIT = 16
"""Rows, slots and places in a table of numbers are multiples of it: Triton would compile a kernel again for a pointer
that is less aligned."""
FREE = 3
"""What `ended` says of a row without a sentence. Running is 0; 1 and 2 are `tiles.STOP` and `tiles.LENGTH`."""


class DeviceState:
    """The sentences of `rows` rows or a few more. A row belongs to one sentence until that is read; none is ever moved.

    A step reads and writes all of it on the GPU. Only the tensors' addresses are fixed, as a CUDA graph requires: what
    a row's sentence does not use may hold anything, NaN included.
    """

    def __init__(
        self, config: ModelConfig, rows: int, limits: Limits, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.rows = rows = round_up(rows, UNIT)
        self.max_target, self.device = limits.max_target, device
        self.source_slots, target_slots = round_up(limits.max_source + 1, UNIT), round_up(limits.max_target, UNIT)
        layers, heads, d_k = config.decoder_layers, config.num_heads, config.head_dim

        def allocate(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, device=device, dtype=dtype)

        self.rows_state = torch.full((6, rows), FREE, dtype=torch.int32, device=device)
        self.ended, self.lengths, self.limits, self.source_lengths, self.source_prefixes, self.last = self.rows_state
        """Each [rows]: why a row ended, its tokens so far, their limit, the tokens of its source with the end symbol,
        of which to so many none is aligned, and its last token."""
        self.tokens, self.aligned = allocate(2, rows, limits.max_target, dtype=torch.int32)  # [rows, max_target]
        self.log_probs = allocate(rows, limits.max_target)  # [rows, max_target]
        self.attention, self.coverage = allocate(2, rows, self.source_slots)  # [rows, source slots]
        cached = 0 if config.decoder == "ssru" else layers
        self.cache = [allocate(rows, 2 * heads, target_slots, d_k, dtype=dtype) for _ in range(cached)]
        self.cells = [allocate(rows, config.d_model) for _ in range(layers - cached)]  # in place of keys and values
        self.memory = [allocate(rows, 2 * heads, self.source_slots, d_k, dtype=dtype) for _ in range(layers)]
        self.alignment_keys = allocate(rows, self.source_slots, config.alignment_size, dtype=dtype)

    def admit(
        self, rows: Sequence[int], hypotheses: Sequence[Hypothesis], source_lengths: Sequence[int], bos: int
    ) -> None:
        """Gives `rows` to sentences, whose memory is written by the encoder. Source lengths include end symbols."""
        count = len(rows)
        prefixes = [h.source_prefix_length for h in hypotheses]
        new = [*rows, *[0] * (2 * count), *[h.limit for h in hypotheses], *source_lengths, *prefixes, *[bos] * count]
        given = staged(new, self.device).to(self.device, non_blocking=True).view(7, count)
        for sums in (self.attention, self.coverage, *self.cells):
            sums.index_fill_(0, given[0], 0)
        self.rows_state[:, given[0]] = given[1:].int()

    def free(self, rows: Sequence[int]) -> None:
        """Ends the sentences of `rows`, which are not read."""
        self.ended.index_fill_(0, staged(list(rows), self.device).to(self.device, non_blocking=True), FREE)

    def read(self, rows: Sequence[int], length: int, source_length: int) -> tuple[Tensor, Tensor, Tensor]:
        """The results of `rows`, on the CPU: tokens and alignments [2, rows, length], log probabilities [rows, length],
        and coverage [rows, source_length]. Waits for the GPU."""
        index = staged(list(rows), self.device).to(self.device, non_blocking=True)
        both = torch.stack((self.tokens[index, :length], self.aligned[index, :length]))  # [2, rows, length]
        return both.cpu(), self.log_probs[index, :length].cpu(), self.coverage[index, :source_length].cpu()
