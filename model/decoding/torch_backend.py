"""The PyTorch backend: `encode_batch` and `decode_step` over a KVCache, and the decoder state built from them.

`model.decoding.batch` assigns sentences to rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from model.decoding.batch import DecodeBatch, DecoderState, StepOutput
from model.decoding.batch_invariance import UNTILED, Tiles, find_tiles, with_tiled_products
from model.decoding.constraints import best_by_row
from model.decoding.kv_cache import KVCache
from model.hypothesis import Limits, TokenConstraint, Weights
from model.packing import Packing
from model.transformer import AttentionRecord, Memory, Transformer, unpack


@dataclass(frozen=True)
class EncoderOutput:
    """The encoder's output for a batch, as the decoder uses it."""

    memory: list[Memory]
    """Keys and values of each decoder layer's cross-attention."""
    alignment_keys: Tensor | None
    """The keys of the model's alignment head [batch, source, alignment_size], if it has one."""
    lengths: list[int]
    """The length of each source, with its end symbol if it has one."""
    attention: list[Tensor]
    """The encoder's weights, per layer [batch, heads, source, source]; empty unless recorded."""


def encode_batch(
    model: Transformer, sources: Sequence[Sequence[int]], record: bool = False, tiles: Tiles = UNTILED
) -> EncoderOutput:
    """Encodes the token ids of `sources`, with `</s>` added to each unless the model does without.

    Matrix products run over the packed tokens of all sentences; see Packing. Raises ValueError for a source with more
    tokens than the model has positions.
    """
    device = model.target_embedding.tokens.weight.device
    packing = Packing(sources, model.config, device, tiles.rows, tiles.keys)
    model.check_length(max(packing.lengths))
    attention = AttentionRecord() if record else None
    x = model.source_embedding(packing.tokens, packing.positions)  # [tokens, d_model]
    for layer in model.encoder:
        x = layer(x, packing.mask, attention.encoder if attention else None, packing)  # [tokens, d_model]
    encoded = model.encoder_norm(x)
    keys = unpack(model.alignment.key(encoded), packing) if model.alignment else None
    return EncoderOutput(model.memory(encoded, packing), keys, packing.lengths, attention.encoder if attention else [])


def decode_step(model: Transformer, cache: KVCache, tokens: Tensor, record: AttentionRecord | None = None) -> Tensor:
    """Decodes one step: from the last token of each row, [rows], to the logits of the next, [rows, vocabulary]."""
    positions = cache.begin_step()
    logits = step_logits(model, cache, tokens, positions, record)
    cache.end_step()
    return logits


def step_logits(
    model: Transformer, cache: KVCache, tokens: Tensor, positions: Tensor, record: AttentionRecord | None = None
) -> Tensor:
    """The arithmetic of a step that `cache` has begun, [rows, vocabulary]. It never waits for a GPU, and the operations
    do not depend on values, so that a CUDA graph can capture it."""
    x = model.target_embedding(tokens[:, None], positions[:, None])  # [rows, 1, d_model]
    mask, memory_mask = cache.mask(), cache.memory_mask()
    for number, layer in enumerate(model.decoder):
        update, advance = partial(cache.update, number), partial(cache.advance, number)
        x = layer(x, mask, cache.memory(number), memory_mask, record, update, advance)
    logits: Tensor = model.output(model.decoder_norm(x))[:, 0]  # [rows, vocabulary]
    return logits


class TorchBackend:
    """Decodes with the modules of a Transformer, at the precision of its weights. It must be in evaluation mode.

    On a CPU every sentence gets the same bits in any batch, because matrix products are tiled (see
    `model.decoding.batch_invariance`). `tiled=False` turns that off, to measure its cost. `tiles`: those of a CPU's
    products, if they are not to be found by trying.
    """

    engine = "torch"

    def __init__(
        self, model: Transformer, precision: str | None = None, tiled: bool = True, tiles: Tiles | None = None
    ) -> None:
        weight = model.target_embedding.tokens.weight
        self.config, self.device = model.config, weight.device.type
        self.precision = precision or str(weight.dtype).removeprefix("torch.")
        self.tiles = UNTILED
        if tiled and self.device == "cpu":
            self.tiles = tiles or find_tiles(model, model.config.head_dim)
        self.model = with_tiled_products(model, self.tiles)
        self.weight_bytes = sum(weight.numel() * weight.element_size() for weight in model.parameters())

    def check_weights(self) -> None:
        """See `Backend`. They are in memory of this process."""

    def new_batch(self, rows: int, limits: Limits) -> DecodeBatch:
        return DecodeBatch(self.new_state(rows, limits), self.config)

    def new_state(self, rows: int, limits: Limits) -> DecoderState:
        return TorchDecoderState(self.model, rows, limits, self.tiles)


class TorchDecoderState:
    """A DecoderState over a KVCache."""

    def __init__(self, model: Transformer, rows: int, limits: Limits, tiles: Tiles = UNTILED) -> None:
        weight = model.target_embedding.tokens.weight
        # Plus one: the source's end symbol, and the target position that predicts the end.
        lengths = (limits.max_source + 1, limits.max_target + 1)
        self.rows = rows
        self._model, self._tiles = model, tiles
        self._cache = KVCache(model.config, rows, *lengths, device=weight.device, dtype=weight.dtype, tiles=tiles)
        self._nan_rows: set[int] = set()

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]], prefix_lengths: Sequence[int], record: bool) -> list[Weights]:
        encoded = encode_batch(self._model, sources, record, self._tiles)
        self._cache.admit(encoded.memory, encoded.lengths, prefix_lengths, encoded.alignment_keys)
        if not record:
            return []
        return [_stacked([w[row, :, :n, :n] for w in encoded.attention]) for row, n in enumerate(encoded.lengths)]

    @torch.inference_mode()
    def step(self, tokens: Sequence[int], constraints: Mapping[int, TokenConstraint], record: bool) -> StepOutput:
        attention = AttentionRecord()
        last = torch.tensor(self._padded(tokens), device=self._cache.device)  # [rows]
        logits = decode_step(self._model, self._cache, last, attention)[: len(tokens)]
        log_probs = logits.float().log_softmax(-1)  # [rows, vocabulary]
        scores, chosen = self.choose(log_probs)
        aligned = [positions[: len(tokens)].double() for positions in self._align(attention)]
        best = torch.stack([chosen.double(), scores.double(), *aligned])  # [3 or 4, rows]
        return self._output(best, log_probs, constraints, self._attention_by_row(attention) if record else [])

    def _align(self, attention: AttentionRecord) -> list[Tensor]:
        """By a step's cross-attention, the source token that each row's next token is aligned to, [rows]; and by the
        alignment head, if there is one, that of the last token, [rows]."""
        aligned = [self._cache.record_attention(attention.cross)]
        if (head := self._model.alignment) is not None:
            aligned.append(self._cache.align(head, attention.cross_inputs[0]))
        return aligned

    def choose(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """The log probability and id of each row's next token, without constraints; log_probs [rows, vocabulary]."""
        scores, chosen = log_probs.max(-1)
        return scores, chosen

    def coverage(self, rows: Sequence[int]) -> list[list[float]]:
        return self._cache.coverage(rows)

    @torch.inference_mode()
    def fork(self, rows: Sequence[int]) -> None:
        self._cache.fork(rows)

    @torch.inference_mode()
    def drop(self, rows: Sequence[int]) -> list[int]:
        # A row with NaN has it in every later step. A row that made no step may have it unnoticed.
        suspects = [row for row in rows if row in self._nan_rows or self._cache.lengths[row] == 0]
        if suspects:
            self._cache.zero_values(suspects)
        order = self._cache.drop(rows)
        self._nan_rows = {row for row, before in enumerate(order) if before in self._nan_rows}
        return order

    def _padded(self, tokens: Sequence[int]) -> list[int]:
        """`tokens`, and padding for the unused rows of a step."""
        return [*tokens, *[self._model.config.pad_id] * (self._cache.step_rows - len(tokens))]

    def _output(
        self,
        best: Tensor,
        log_probs: Tensor,
        constraints: Mapping[int, TokenConstraint],
        attention: list[tuple[Weights, Weights]],
    ) -> StepOutput:
        """best [3 or 4, rows]: each row's best token, its log probability, and what `_align` returns."""
        tokens, scores, *alignments = best.tolist()
        eos = self._model.config.eos_id
        candidates = best_by_row(log_probs, constraints, eos)
        for row, found in candidates.items():
            tokens[row], scores[row] = found[0]
        self._nan_rows = {row for row, score in enumerate(scores) if math.isnan(score)}
        aligned, last = ([list(map(int, positions)) for positions in alignments] + [[]])[:2]
        return StepOutput(list(map(int, tokens)), scores, aligned, last, candidates, attention)

    def _attention_by_row(self, attention: AttentionRecord) -> list[tuple[Weights, Weights]]:
        heads = self._model.config.num_heads

        def row_of(weights: list[Tensor], row: int, length: int) -> Weights:  # [layer, head, key]
            if not weights:
                return np.zeros((0, heads, length), np.float32)
            return _stacked([w[row, :, 0, :length] for w in weights])

        return [
            (row_of(attention.decoder, row, target), row_of(attention.cross, row, source))
            for row, (target, source) in enumerate(zip(self._cache.lengths, self._cache.source_lengths, strict=True))
        ]


def _stacked(layers: list[Tensor]) -> Weights:
    """The weights of all layers as NumPy's, exact at any precision: [layer, ...]."""
    weights: Weights = torch.stack(layers).float().cpu().numpy()
    return weights
