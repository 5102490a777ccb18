"""Runs a Transformer's encoder, and steps of its decoder, as launches of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import cast

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from torch import Tensor, nn

from model.packing import round_up
from model.transformer import DecoderLayer, EncoderLayer, FeedForward, Residual, Transformer
from model.triton.attention import align, cross_attention, encoder_attention, self_attention
from model.triton.choice import append, vocabulary
from model.triton.layers import combine, embed, feed_forward, project, recurrence
from model.triton.state import UNIT, DeviceState
from model.triton.tiles import INNER_TILE, OUTPUT_TILE, ROW_TILE, TOKEN_TILE, WIDE_ROW_TILE

MAX_ENCODED_TOKENS = 8192
"""Tokens that the encoder packs at once: its working memory."""


class _Norms:
    """The layer normalisations of a stack, as `combine` takes them: `first` before the first sublayer; and for each
    sublayer the one that belongs to its end, and the one before what follows."""

    def __init__(self, residuals: list[Residual], last: nn.Module) -> None:
        own: list[Tensor | None] = [_packed(residual.norm) for residual in residuals]
        final = _packed(last) if isinstance(last, nn.LayerNorm) else None
        self.placement = residuals[0].placement
        none: list[Tensor | None] = [None] * len(own)
        self.first, self.before, self.after = None, own, [*none[1:], final]
        if self.placement == "pre":
            self.first, self.before, self.after = own[0], none, [*own[1:], final]


def _packed(norm: nn.LayerNorm) -> Tensor:
    return torch.stack((norm.weight, norm.bias)).detach().contiguous()  # [2, d_model]


class Buffers:
    """Working memory of up to `rows` rows: the residual stream x and what the next sublayer reads of it, y, both [rows,
    d_model]; and the parts that sublayers add, [parts, rows, d_model]."""

    def __init__(self, network: Network, rows: int) -> None:
        config, device = network.config, network.device
        parts = max(config.num_heads, network.slices)
        self.rows = rows
        self.x = torch.empty(rows, config.d_model, device=device)
        self.y = torch.empty(rows, config.d_model, device=device, dtype=network.dtype)
        self.parts = torch.empty(parts, rows, config.d_model, device=device)


class StepBuffers(Buffers):
    """Those of a decoder step: besides, the cross-attention's scores [layers * heads, rows, source slots] with maximum
    and sum of their softmax [layers * heads, 2, rows], and highest logit, its token and the sum of exponentials of each
    tile of the vocabulary, [tiles, rows]."""

    def __init__(self, network: Network, state: DeviceState) -> None:
        super().__init__(network, state.rows)
        config, rows, device = network.config, state.rows, network.device
        heads = config.decoder_layers * config.num_heads
        self.scores = torch.empty(heads, rows, state.source_slots, device=device)
        self.softmax = torch.empty(heads, 2, rows, device=device)
        self.best, self.sums = torch.empty(2, network.tiles, rows, device=device)
        self.best_tokens = torch.empty(network.tiles, rows, device=device, dtype=torch.int32)


class Network:
    """The model's weights and the shapes of its kernels."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.config = model, model.config
        config = model.config
        self.device, self.dtype = model.output.weight.device, model.output.weight.dtype
        self.slices = triton.cdiv(config.d_ff, INNER_TILE.value)
        self.tiles = triton.cdiv(config.target_vocab_size, TOKEN_TILE.value)
        self._encoder = [cast(EncoderLayer, layer) for layer in model.encoder]
        self._decoder = [cast(DecoderLayer, layer) for layer in model.decoder]
        self._encoder_norms = _Norms(
            [r for layer in self._encoder for r in (layer.self_residual, layer.feed_residual)], model.encoder_norm
        )
        residuals = []
        for layer in self._decoder:
            own = layer.recurrence_residual if layer.is_recurrent else layer.self_residual
            residuals += [own, layer.cross_residual, layer.feed_residual]
        self._decoder_norms = _Norms(residuals, model.decoder_norm)
        self._width = {"D": config.d_model, "BLOCK": triton.next_power_of_2(config.d_model)}
        self._head = {
            "D": config.d_model,
            "DK": config.head_dim,
            "BLOCK": max(16, triton.next_power_of_2(config.head_dim)),
        }
        size = config.alignment_size
        self._alignment = {"D": config.d_model, "BLOCK": max(16, triton.next_power_of_2(size))}
        self._scale = 1 / math.sqrt(config.head_dim)
        self._alignment_heads = 0, config.decoder_layers * config.num_heads
        if config.alignment_layer is not None and config.alignment_head is not None:
            first = config.alignment_layer * config.num_heads + config.alignment_head
            self._alignment_heads = first, first + 1

    # ---- The decoder

    def step(self, state: DeviceState, buffers: StepBuffers, rows: int) -> None:
        """Decodes one token for each of the first `rows` rows that runs. It waits for nothing and allocates nothing, so
        that a CUDA graph can capture it."""
        config, model, norms = self.config, self.model, self._decoder_norms
        heads, tiles = config.num_heads, triton.cdiv(rows, ROW_TILE.value)
        common = buffers.y, rows, state.ended
        embedding = model.target_embedding
        zero_id = config.bos_id if config.zero_start else -1
        embed[(rows,)](
            buffers.x, buffers.y, rows, state.ended, state.last, state.lengths, embedding.tokens.weight,
            embedding.positions, norms.first, embedding.scale, zero_id, **self._width,
        )  # fmt: skip
        for number, layer in enumerate(self._decoder):
            cross = layer.cross_attention
            if layer.is_recurrent:
                unit = layer.recurrence
                recurrence[(triton.cdiv(rows, WIDE_ROW_TILE.value), triton.cdiv(config.d_model, OUTPUT_TILE.value))](
                    *common, unit.forget.weight, unit.forget.bias, unit.candidate.weight, state.cells[number],
                    buffers.parts, D=config.d_model,
                )  # fmt: skip
                self._combine(buffers, rows, state.ended, 1, None, norms, 3 * number)
            else:
                attention = layer.self_attention
                weights = attention.query_key_value.weight, attention.query_key_value.bias, attention.output.weight
                self_attention[(tiles, heads)](
                    *common, state.lengths, *weights, state.cache[number], buffers.parts, buffers.rows, self._scale,
                    SLOTS=state.cache[number].size(2), num_warps=8, **self._head,
                )  # fmt: skip
                self._combine(buffers, rows, state.ended, heads, attention.output.bias, norms, 3 * number)
            if model.alignment is not None and number == 0:
                query = model.alignment.query
                align[(tiles,)](
                    *common, state.lengths, state.source_lengths, state.source_prefixes, query.weight, query.bias,
                    state.alignment_keys, state.aligned, SIZE=config.alignment_size, SLOTS=state.source_slots,
                    MAX_TARGET=state.max_target, **self._alignment,
                )  # fmt: skip
            weights = cross.query_key_value.weight, cross.query_key_value.bias, cross.output.weight
            scores, softmax = (x[number * heads :] for x in (buffers.scores, buffers.softmax))
            cross_attention[(tiles, heads)](
                *common, state.source_lengths, *weights, state.memory[number], scores, softmax, buffers.parts,
                buffers.rows, self._scale, SLOTS=state.source_slots, num_warps=8, **self._head,
            )  # fmt: skip
            self._combine(buffers, rows, state.ended, heads, cross.output.bias, norms, 3 * number + 1)
            self._feed_forward(buffers, rows, state.ended, layer.feed_forward)
            self._combine(buffers, rows, state.ended, self.slices, layer.feed_forward.outer.bias, norms, 3 * number + 2)
        vocabulary[(triton.cdiv(rows, WIDE_ROW_TILE.value), self.tiles)](
            *common, model.output.weight, model.output.bias, buffers.best, buffers.best_tokens, buffers.sums,
            buffers.rows, D=config.d_model, V=config.target_vocab_size,
        )  # fmt: skip
        first, last = self._alignment_heads
        append[(rows,)](
            buffers.best, buffers.best_tokens, buffers.sums, self.tiles, buffers.scores, buffers.softmax, buffers.rows,
            first, last, *state.rows_state, state.tokens, state.log_probs, state.aligned, state.attention,
            state.coverage, EOS=config.eos_id, SOURCE_END=int(config.source_eos), SLOTS=state.source_slots,
            MAX_TARGET=state.max_target, TILES_BLOCK=triton.next_power_of_2(self.tiles),
            SLOTS_BLOCK=triton.next_power_of_2(state.source_slots),
        )  # fmt: skip

    # ---- The encoder

    def encode(self, sources: Sequence[Sequence[int]], rows: Sequence[int], state: DeviceState) -> list[int]:
        """Encodes `sources`, without end symbols, and writes the keys and values of cross-attention to `rows` of the
        state. Returns the lengths with end symbols. Raises ValueError for a source that has more tokens than the model
        has positions."""
        ids = [self.config.source_ids(source) for source in sources]
        lengths = [len(source) for source in ids]
        self.model.check_length(max(lengths))
        first = tokens = 0
        for number, length in enumerate(lengths):
            if number > first and tokens + length > MAX_ENCODED_TOKENS:
                self._encode(ids[first:number], np.array(lengths[first:number]), np.array(rows[first:number]), state)
                first, tokens = number, 0
            tokens += length
        self._encode(ids[first:], np.array(lengths[first:]), np.array(rows[first:]), state)
        return lengths

    def _encode(
        self, sources: list[tuple[int, ...]], lengths: NDArray[np.int64], rows: NDArray[np.int64], state: DeviceState
    ) -> None:
        config, norms = self.config, self._encoder_norms
        heads, d_k, slots = config.num_heads, config.head_dim, state.source_slots
        ends = lengths.cumsum()
        starts, count = ends - lengths, int(ends[-1])
        within = np.arange(count) - starts.repeat(lengths)  # [tokens], the place of each in its sentence
        memory_places = (rows.repeat(lengths) * 2 * heads * slots + within) * d_k
        size = config.alignment_size
        alignment_places = (rows.repeat(lengths) * slots + within) * size
        tile, tiles = ROW_TILE.value, -(-lengths // ROW_TILE.value)
        within_tiles = np.arange(tiles.sum()) - (tiles.cumsum() - tiles).repeat(tiles)
        tile_table = np.stack([starts.repeat(tiles) + tile * within_tiles, starts.repeat(tiles), ends.repeat(tiles)], 1)
        ids, qkv_places = np.fromiter(chain.from_iterable(sources), np.int64), np.arange(count) * 3 * config.d_model
        table = np.zeros((5, round_up(count, UNIT)), np.int64)
        table[:, :count] = ids, within, memory_places, qkv_places, alignment_places
        sent = torch.from_numpy(np.concatenate([table.ravel(), tile_table.ravel()]))  # one transfer
        if self.device.type == "cuda":
            sent = sent.pin_memory()
        sent = sent.to(self.device, non_blocking=True)
        tokens, places, memory, packed, aligned = sent[: table.size].view(table.shape)
        buffers, embedding = Buffers(self, count), self.model.source_embedding
        qkv = torch.empty(count, 3 * config.d_model, device=self.device, dtype=self.dtype)
        embed[(count,)](
            buffers.x, buffers.y, count, None, tokens, places, embedding.tokens.weight, embedding.positions,
            norms.first, embedding.scale, -1, **self._width,
        )  # fmt: skip
        row_tiles = triton.cdiv(count, WIDE_ROW_TILE.value)
        for number, layer in enumerate(self._encoder):
            projection, output = layer.self_attention.query_key_value, layer.self_attention.output
            project[(row_tiles, 3 * heads)](
                buffers.y, count, projection.weight, projection.bias, qkv, packed, d_k, **self._head
            )
            encoder_attention[(len(tile_table), heads)](
                qkv, count, sent[table.size :], output.weight, buffers.parts, buffers.rows, self._scale, **self._head
            )
            self._combine(buffers, count, None, heads, output.bias, norms, 2 * number)
            self._feed_forward(buffers, count, None, layer.feed_forward)
            self._combine(buffers, count, None, self.slices, layer.feed_forward.outer.bias, norms, 2 * number + 1)
        for decoder_layer, target in zip(self._decoder, state.memory, strict=True):
            projection = decoder_layer.cross_attention.query_key_value
            weight, bias = (None if p is None else p[config.d_model :] for p in (projection.weight, projection.bias))
            project[(row_tiles, 2 * heads)](buffers.y, count, weight, bias, target, memory, slots * d_k, **self._head)
        if self.model.alignment is not None:
            key = self.model.alignment.key
            project[(row_tiles, 1)](
                buffers.y, count, key.weight, key.bias, state.alignment_keys, aligned, 0, DK=size, **self._alignment
            )

    # ---- Of both

    def _feed_forward(self, buffers: Buffers, rows: int, ended: Tensor | None, module: FeedForward) -> None:
        feed_forward[(triton.cdiv(rows, WIDE_ROW_TILE.value), self.slices)](
            buffers.y, rows, ended, module.inner.weight, module.inner.bias, module.outer.weight, buffers.parts,
            buffers.rows, D=self.config.d_model, F=self.config.d_ff, SWISH=self.config.activation == "swish",
        )  # fmt: skip

    def _combine(
        self,
        buffers: Buffers,
        rows: int,
        ended: Tensor | None,
        parts: int,
        bias: Tensor | None,
        norms: _Norms,
        number: int,
    ) -> None:
        """Ends sublayer `number` of a stack, and begins the next."""
        combine[(rows,)](
            buffers.x, buffers.y, rows, ended, buffers.parts, parts, buffers.rows, bias, norms.before[number],
            norms.after[number], PLACEMENT=norms.placement, **self._width,
        )  # fmt: skip
