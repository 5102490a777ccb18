"""Greedy decoding: `encode_batch` and `decode_step` over a key/value cache, and the running batch made of the two.

Knows token ids only. Who waits, and for how long, is `app.scheduler`'s; text is `model.tokenizer`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from model.kv_cache import KVCache
from model.transformer import AttentionRecord, Memory, Transformer

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Limits:
    """How long a sentence may be, in tokens, the end symbol not counted.

    A target stops at `ratio` times its source plus `margin`, since what is longer is a loop, and at `max_target`.
    """

    max_source: int = 256
    max_target: int = 256
    ratio: float = 2.0
    margin: int = 16

    def __post_init__(self) -> None:
        """Raises ValueError, naming the field, for what is no length."""
        for name, least in (("max_source", 1), ("max_target", 1), ("margin", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ValueError(f"{name} must be a whole number from {least}, not {value!r}")
        if type(self.ratio) not in (int, float) or not 0 <= self.ratio < math.inf:
            raise ValueError(f"ratio must be a number from 0, not {self.ratio!r}")

    def target(self, source_length: int) -> int:
        """The most target tokens that a source of `source_length` tokens may become."""
        return min(self.max_target, int(self.ratio * source_length) + self.margin)


@dataclass(eq=False)
class Hypothesis:
    """One sentence on its way through the decoder.

    `source` has no end symbol; decoding adds it. `forced` gives the target instead of the model's choice (its scores
    and attention are then the model's for that target). `tokens` ends in `</s>` if and only if `finish_reason` is
    "stop"; `log_probs` has one natural logarithm a token.
    """

    source: Sequence[int]
    limit: int
    forced: Sequence[int] | None = None
    record: bool = False
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    encoder_attention: Tensor | None = None
    """[layer, head, source, source] once admitted, if `record`."""
    _decoder_rows: list[Tensor] = field(default_factory=list)
    _cross_rows: list[Tensor] = field(default_factory=list)

    @property
    def decoder_attention(self) -> Tensor:
        """[layer, head, target, target]: each row's keys are the tokens before it, `<s>` first; lower triangular."""
        steps = len(self._decoder_rows)
        return torch.stack([torch.nn.functional.pad(row, (0, steps - row.size(-1))) for row in self._decoder_rows], -2)

    @property
    def cross_attention(self) -> Tensor:
        """[layer, head, target, source], the end symbol included on both sides."""
        return torch.stack(self._cross_rows, -2)


@dataclass(frozen=True)
class Encoded:
    """A batch out of the encoder: what each decoder layer attends to, and each sentence's length with `</s>`."""

    memory: list[Memory]
    lengths: list[int]
    attention: list[Tensor]
    """The encoder's weights, a tensor a layer, [batch, heads, source, source]; empty unless recorded."""


def encode_batch(model: Transformer, sources: Sequence[Sequence[int]], record: bool = False) -> Encoded:
    """Encodes token ids, `</s>` added to each, padded to the longest."""
    config = model.config
    src = torch.full((len(sources), max(map(len, sources)) + 1), config.pad_id)  # [batch, source]
    for row, source in zip(src, sources, strict=True):
        row[: len(source) + 1] = torch.tensor([*source, config.eos_id])
    attention = AttentionRecord() if record else None
    encoded = model.encode(src.to(model.output.weight.device), attention)
    lengths = [len(source) + 1 for source in sources]
    return Encoded(model.memory(encoded), lengths, attention.encoder if attention else [])


def decode_step(model: Transformer, cache: KVCache, tokens: Tensor, record: AttentionRecord | None = None) -> Tensor:
    """One step for every live row: tokens [rows], each row's last, to the next one's logits [rows, vocabulary]."""
    positions = cache.begin_step()
    x = model.target_embedding(tokens[:, None], positions[:, None])  # [rows, 1, d_model]
    mask, memory_mask = cache.mask(), cache.memory_mask()
    for number, layer in enumerate(model.decoder):
        x = layer(x, mask, cache.memory(number), memory_mask, record, partial(cache.remember, number))
    cache.end_step()
    logits: Tensor = model.output(model.decoder_norm(x))[:, 0]
    return logits


class DecodeBatch:
    """The sentences being decoded together, at most `rows` of them; they join and leave between steps.

    The model must be in evaluation mode; nothing here makes gradients.
    """

    def __init__(self, model: Transformer, rows: int, limits: Limits) -> None:
        weight = model.output.weight
        # A source carries its end symbol, and the last target position is where the end is predicted.
        room = (limits.max_source + 1, limits.max_target + 1)
        self.model = model
        self.cache = KVCache(model.config, rows, *room, device=weight.device, dtype=weight.dtype)
        self.running: list[Hypothesis] = []

    @torch.inference_mode()
    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` as one batch and gives them rows. They must fit: see `free`."""
        encoded = encode_batch(self.model, [h.source for h in hypotheses], any(h.record for h in hypotheses))
        self.cache.admit(encoded.memory, encoded.lengths)
        self.running.extend(hypotheses)
        for row, (hypothesis, length) in enumerate(zip(hypotheses, encoded.lengths, strict=True)):
            if hypothesis.record:
                hypothesis.encoder_attention = torch.stack([w[row, :, :length, :length] for w in encoded.attention])

    @property
    def free(self) -> int:
        """Rows that are not taken."""
        return self.cache.rows - len(self.running)

    @torch.inference_mode()
    def step(self) -> list[Hypothesis]:
        """One token for every running sentence; returns those that it finished, which have left the batch."""
        config = self.model.config
        last = [h.tokens[-1] if h.tokens else config.bos_id for h in self.running]
        record = AttentionRecord() if any(h.record for h in self.running) else None
        logits = decode_step(self.model, self.cache, torch.tensor(last, device=self.cache.device), record)
        log_probs = logits.float().log_softmax(-1)  # [rows, vocabulary]
        chosen = log_probs.argmax(-1)
        for row, hypothesis in enumerate(self.running):
            if hypothesis.forced is not None:
                chosen[row] = [*hypothesis.forced, config.eos_id][len(hypothesis.tokens)]
        scores = log_probs.gather(-1, chosen[:, None])[:, 0]
        for row, (token, score) in enumerate(zip(chosen.tolist(), scores.tolist(), strict=True)):
            self._extend(row, token, score, record)
        return self.remove([h for h in self.running if h.finish_reason])

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Takes running sentences out, finished or abandoned; returns them."""
        if hypotheses:
            gone = set(map(id, hypotheses))
            order = self.cache.drop([row for row, h in enumerate(self.running) if id(h) in gone])
            self.running = [self.running[row] for row in order]
        return list(hypotheses)

    def _extend(self, row: int, token: int, score: float, record: AttentionRecord | None) -> None:
        hypothesis = self.running[row]
        hypothesis.tokens.append(token)
        hypothesis.log_probs.append(score)
        if record and hypothesis.record:
            target, source = self.cache.lengths[row], self.cache.source_lengths[row]
            hypothesis._decoder_rows.append(torch.stack([w[row, :, 0, :target] for w in record.decoder]))
            hypothesis._cross_rows.append(torch.stack([w[row, :, 0, :source] for w in record.cross]))
        if token == self.model.config.eos_id:
            hypothesis.finish_reason = "stop"
        elif len(hypothesis.tokens) >= hypothesis.limit + (hypothesis.forced is not None):
            hypothesis.finish_reason = "length"


def greedy_decode(
    model: Transformer, sources: Sequence[Sequence[int]], limits: Limits, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source, at most `rows` at a time, the longest first, each leaving when it ends; in order.

    Raises ValueError if a source is over `limits.max_source` tokens.
    """
    for number, source in enumerate(sources):
        if len(source) > limits.max_source:
            raise ValueError(f"source {number} has {len(source)} tokens, over the limit of {limits.max_source}")
    hypotheses = [Hypothesis(source, limits.target(len(source))) for source in sources]
    waiting = sorted(hypotheses, key=lambda h: len(h.source))
    batch = DecodeBatch(model, min(rows, max(1, len(waiting))), limits)
    while waiting or batch.running:
        # A refill smaller than a quarter of the rows would encode in batches too small to be worth it.
        if waiting and (batch.free >= max(1, batch.cache.rows // 4) or not batch.running):
            batch.admit([waiting.pop() for _ in range(min(batch.free, len(waiting)))])
        batch.step()
    return hypotheses
