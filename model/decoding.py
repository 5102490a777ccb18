"""Greedy decoding: the running batch, what a runner of a model offers it, and the runner that PyTorch is.

Knows token ids only. Who waits, and for how long, is `app.scheduler`'s; text is `model.tokenizer`'s; other runners
are `model.precision`'s to choose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor

from model.config import ModelConfig
from model.kv_cache import KVCache, on_the_way
from model.packing import Packing
from model.tiles import UNTILED, Tiles, tiles_for, with_tiled_products
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
class Step:
    """What one step gave each live row, in their order."""

    tokens: list[int]
    log_probs: list[float]
    """Natural logarithms, one a row; NaN where the arithmetic of that row broke down."""
    attention: list[tuple[Tensor, Tensor]]
    """The weights of the position decoded: over the target so far, [layer, head, target], and over the source,
    [layer, head, source]. One pair a row; empty unless recorded."""


class Slots(Protocol):
    """The state of the sentences being decoded, in rows 0 to n - 1 of `rows`, and the arithmetic of a step."""

    rows: int

    def admit(self, sources: Sequence[Sequence[int]], record: bool) -> list[Tensor]:
        """Encodes `sources`, no end symbol on them, into the next free rows. The caller has made sure that they fit.

        Returns the encoder's weights, [layer, head, source, source] a sentence, or nothing unless `record`.
        """
        ...

    def step(self, tokens: Sequence[int], forced: Mapping[int, int], record: bool) -> Step:
        """One token for every live row. `tokens`: each one's last; `forced`: by row, what to take, not the best."""
        ...

    def drop(self, rows: Sequence[int]) -> list[int]:
        """Frees `rows`, closing the gaps. Returns for each row that is left the row it was in before."""
        ...


class Batch(Protocol):
    """The sentences being decoded together, at most `rows` of them; they join and leave between steps."""

    rows: int

    @property
    def running(self) -> Sequence[Hypothesis]: ...

    @property
    def free(self) -> int:
        """Rows that are not taken."""
        ...

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` as one batch and gives them rows. They must fit: see `free`."""
        ...

    def step(self) -> list[Hypothesis]:
        """One token for every running sentence; returns those that it finished, which have left the batch."""
        ...

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Takes running sentences out, finished or abandoned; returns them."""
        ...


class Runner(Protocol):
    """A model made ready to decode at some precision, on some device."""

    config: ModelConfig
    precision: str
    device: torch.device

    def new_batch(self, rows: int, limits: Limits) -> Batch: ...


class DecodeBatch:
    """The Batch that keeps each sentence's tokens here and leaves the arithmetic to Slots."""

    def __init__(self, runner: TorchRunner | Transformer, rows: int, limits: Limits) -> None:
        runner = TorchRunner(runner) if isinstance(runner, Transformer) else runner
        self.rows = rows
        self.running: list[Hypothesis] = []
        self._slots = runner.new_slots(rows, limits)
        self._config = runner.config

    @property
    def free(self) -> int:
        """Rows that are not taken."""
        return self.rows - len(self.running)

    def admit(self, hypotheses: Sequence[Hypothesis]) -> None:
        """Encodes `hypotheses` as one batch and gives them rows. They must fit: see `free`."""
        attention = self._slots.admit([h.source for h in hypotheses], any(h.record for h in hypotheses))
        self.running.extend(hypotheses)
        for hypothesis, weights in zip(hypotheses, attention, strict=False):
            if hypothesis.record:
                hypothesis.encoder_attention = weights

    def step(self) -> list[Hypothesis]:
        """One token for every running sentence; returns those that it finished, which have left the batch."""
        last = [h.tokens[-1] if h.tokens else self._config.bos_id for h in self.running]
        step = self._slots.step(last, self._forced(), any(h.record for h in self.running))
        for hypothesis, token, log_prob in zip(self.running, step.tokens, step.log_probs, strict=True):
            self._extend(hypothesis, token, log_prob)
        for hypothesis, (decoder, cross) in zip(self.running, step.attention, strict=False):
            if hypothesis.record:
                hypothesis._decoder_rows.append(decoder)
                hypothesis._cross_rows.append(cross)
        return self.remove([h for h in self.running if h.finish_reason])

    def remove(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """Takes running sentences out, finished or abandoned; returns them."""
        if hypotheses:
            gone = set(map(id, hypotheses))
            order = self._slots.drop([row for row, h in enumerate(self.running) if id(h) in gone])
            self.running = [self.running[row] for row in order]
        return list(hypotheses)

    def _forced(self) -> dict[int, int]:
        return {
            row: [*h.forced, self._config.eos_id][len(h.tokens)]
            for row, h in enumerate(self.running)
            if h.forced is not None
        }

    def _extend(self, hypothesis: Hypothesis, token: int, log_prob: float) -> None:
        hypothesis.tokens.append(token)
        hypothesis.log_probs.append(log_prob)
        if token == self._config.eos_id:
            hypothesis.finish_reason = "stop"
        elif math.isnan(log_prob) or len(hypothesis.tokens) >= hypothesis.limit + (hypothesis.forced is not None):
            hypothesis.finish_reason = "length"


def as_runner(model: Runner | Transformer) -> Runner:
    """A Transformer becomes the runner that computes with it as it is."""
    return TorchRunner(model) if isinstance(model, Transformer) else model


def greedy_decode(
    model: Runner | Transformer, sources: Sequence[Sequence[int]], limits: Limits, rows: int = 64
) -> list[Hypothesis]:
    """Decodes every source, at most `rows` at a time, the longest first, each leaving when it ends; in order.

    Raises ValueError if a source is over `limits.max_source` tokens.
    """
    for number, source in enumerate(sources):
        if len(source) > limits.max_source:
            raise ValueError(f"source {number} has {len(source)} tokens, over the limit of {limits.max_source}")
    hypotheses = [Hypothesis(source, limits.target(len(source))) for source in sources]
    waiting = sorted(hypotheses, key=lambda h: len(h.source))
    batch = as_runner(model).new_batch(min(rows, max(1, len(waiting))), limits)
    while waiting or batch.running:
        # A refill smaller than a quarter of the rows would encode in batches too small to be worth it.
        if waiting and (batch.free >= max(1, batch.rows // 4) or not batch.running):
            batch.admit([waiting.pop() for _ in range(min(batch.free, len(waiting)))])
        batch.step()
    return hypotheses


# ---- The runner that PyTorch is


@dataclass(frozen=True)
class Encoded:
    """A batch out of the encoder: what each decoder layer attends to, and each sentence's length with `</s>`."""

    memory: list[Memory]
    lengths: list[int]
    attention: list[Tensor]
    """The encoder's weights, a tensor a layer, [batch, heads, source, source]; empty unless recorded."""


def encode_batch(
    model: Transformer, sources: Sequence[Sequence[int]], record: bool = False, tiles: Tiles = UNTILED
) -> Encoded:
    """Encodes token ids, `</s>` added to each. Matrix products run over the tokens of all, end to end; see Packing."""
    device = model.target_embedding.tokens.weight.device
    packing = Packing(sources, model.config, device, tiles.rows, tiles.keys)
    model.check_length(max(packing.lengths))
    attention = AttentionRecord() if record else None
    x = model.source_embedding(packing.tokens, packing.positions)  # [tokens, d_model]
    for layer in model.encoder:
        x = layer(x, packing.mask, attention.encoder if attention else None, packing)
    memory = model.memory(model.encoder_norm(x), packing)
    return Encoded(memory, packing.lengths, attention.encoder if attention else [])


def decode_step(model: Transformer, cache: KVCache, tokens: Tensor, record: AttentionRecord | None = None) -> Tensor:
    """One step for every live row: tokens [rows], each row's last, to the next one's logits [rows, vocabulary]."""
    positions = cache.begin_step()
    logits = step_logits(model, cache, tokens, positions, record)
    cache.end_step()
    return logits


def step_logits(
    model: Transformer, cache: KVCache, tokens: Tensor, positions: Tensor, record: AttentionRecord | None = None
) -> Tensor:
    """The arithmetic of a step that `cache` has begun: nothing in it waits for a GPU, or depends on what is in it."""
    x = model.target_embedding(tokens[:, None], positions[:, None])  # [rows, 1, d_model]
    mask, memory_mask = cache.mask(), cache.memory_mask()
    for number, layer in enumerate(model.decoder):
        x = layer(x, mask, cache.memory(number), memory_mask, record, partial(cache.remember, number))
    logits: Tensor = model.output(model.decoder_norm(x))[:, 0]
    return logits


class TorchRunner:
    """Decodes with the modules of a Transformer, at the precision of its weights.

    On a CPU every sentence gets the same bits in any batch, for which the products are tiled (see model.tiles), unless
    `tiled` is False: that is for measuring what it costs. The model must be in evaluation mode.
    """

    def __init__(self, model: Transformer, precision: str | None = None, tiled: bool = True) -> None:
        weight = model.target_embedding.tokens.weight
        self.config, self.device = model.config, weight.device
        self.precision = precision or str(weight.dtype).removeprefix("torch.")
        self.tiles = tiles_for(model, model.config.head_dim) if tiled and self.device.type == "cpu" else UNTILED
        self.model = with_tiled_products(model, self.tiles)

    def new_batch(self, rows: int, limits: Limits) -> DecodeBatch:
        return DecodeBatch(self, rows, limits)

    def new_slots(self, rows: int, limits: Limits) -> Slots:
        if self.device.type == "cuda":
            return GraphSlots(self.model, rows, limits)
        return TorchSlots(self.model, rows, limits, self.tiles)


class TorchSlots:
    """Slots over a KVCache; see `Slots`."""

    def __init__(self, model: Transformer, rows: int, limits: Limits, tiles: Tiles = UNTILED) -> None:
        weight = model.target_embedding.tokens.weight
        # A source carries its end symbol, and the last target position is where the end is predicted.
        room = (limits.max_source + 1, limits.max_target + 1)
        self.rows = rows
        self._model, self._tiles = model, tiles
        self._cache = KVCache(model.config, rows, *room, device=weight.device, dtype=weight.dtype, tiles=tiles)
        self._broken: set[int] = set()

    @torch.inference_mode()
    def admit(self, sources: Sequence[Sequence[int]], record: bool) -> list[Tensor]:
        encoded = encode_batch(self._model, sources, record, self._tiles)
        self._cache.admit(encoded.memory, encoded.lengths)
        if not record:
            return []
        return [torch.stack([w[row, :, :n, :n] for w in encoded.attention]) for row, n in enumerate(encoded.lengths)]

    @torch.inference_mode()
    def step(self, tokens: Sequence[int], forced: Mapping[int, int], record: bool) -> Step:
        attention = AttentionRecord() if record else None
        last = torch.tensor(self._filled(tokens, self._model.config.pad_id), device=self._cache.device)  # [rows]
        logits = decode_step(self._model, self._cache, last, attention)[: len(tokens)]
        log_probs = logits.float().log_softmax(-1)  # [rows, vocabulary]
        chosen = log_probs.argmax(-1)
        for row, token in forced.items():
            chosen[row] = token
        scores = log_probs.gather(-1, chosen[:, None])[:, 0].tolist()
        return self._made(chosen.tolist(), scores, self._rows_of(attention) if attention else [])

    @torch.inference_mode()
    def drop(self, rows: Sequence[int]) -> list[int]:
        # What is broken shows in every step after it; of a sentence that made none, nobody knows.
        suspects = [row for row in rows if row in self._broken or self._cache.lengths[row] == 0]
        if suspects:
            self._cache.clean(suspects)
        order = self._cache.drop(rows)
        self._broken = {row for row, before in enumerate(order) if before in self._broken}
        return order

    def _filled(self, tokens: Sequence[int], filling: int) -> list[int]:
        """One for each row of a step, those that stand for nobody included."""
        return [*tokens, *[filling] * (self._cache.step_rows - len(tokens))]

    def _made(self, tokens: list[int], scores: list[float], attention: list[tuple[Tensor, Tensor]]) -> Step:
        self._broken = {row for row, score in enumerate(scores) if math.isnan(score)}
        return Step(tokens, scores, attention)

    def _rows_of(self, attention: AttentionRecord) -> list[tuple[Tensor, Tensor]]:
        def row_of(weights: list[Tensor], row: int, length: int) -> Tensor:
            return torch.stack([w[row, :, 0, :length] for w in weights])  # [layer, head, key]

        return [
            (row_of(attention.decoder, row, target), row_of(attention.cross, row, source))
            for row, (target, source) in enumerate(zip(self._cache.lengths, self._cache.source_lengths, strict=True))
        ]


class GraphSlots(TorchSlots):
    """Slots for a GPU: every step has all rows and all keys, whoever lives in them, and is one CUDA graph.

    One shape means one choice of kernels, so no row's arithmetic depends on how many others there are. A step sends
    tokens and positions without waiting, replays the graph and reads tokens and scores back: the only synchronisation.
    Where there is no GPU the same step runs uncaptured. It has **never run on a GPU**.
    """

    def __init__(self, model: Transformer, rows: int, limits: Limits) -> None:
        super().__init__(model, rows, limits, Tiles(rows=rows, keys=max(limits.max_source, limits.max_target) + 1))
        self._tiles = UNTILED  # these are the cache's shapes; the encoder packs
        device = self._cache.device
        self._last = torch.zeros(rows, dtype=torch.int64, device=device)
        self._forced = torch.full_like(self._last, -1)
        self._outcome = torch.zeros(2, rows, dtype=torch.float64, device=device)  # tokens, scores
        self._graph: torch.cuda.CUDAGraph | None = None

    @torch.inference_mode()
    def step(self, tokens: Sequence[int], forced: Mapping[int, int], record: bool) -> Step:
        if record:  # rare, and its weights have no place in the graph; the shapes, and so the kernels, are the same
            return super().step(tokens, forced, record)
        device, live = self._cache.device, len(tokens)
        self._positions = self._cache.begin_step()
        wanted = [forced.get(row, -1) for row in range(live)]
        self._last.copy_(on_the_way(self._filled(tokens, self._model.config.pad_id), device), non_blocking=True)
        self._forced.copy_(on_the_way(self._filled(wanted, -1), device), non_blocking=True)
        self._replay()
        self._cache.end_step()
        chosen, scores = self._outcome[:, :live].tolist()
        return self._made([int(token) for token in chosen], scores, [])

    def _compute(self) -> None:
        logits = step_logits(self._model, self._cache, self._last, self._positions)
        log_probs = logits.float().log_softmax(-1)  # [rows, vocabulary]
        chosen = torch.where(self._forced < 0, log_probs.argmax(-1), self._forced)
        self._outcome[0] = chosen
        self._outcome[1] = log_probs.gather(-1, chosen[:, None])[:, 0]

    def _replay(self) -> None:
        if self._cache.device.type != "cuda":
            self._compute()
            return
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()

    def _capture(self) -> None:
        """Libraries set themselves up in the first runs, which a graph must not hold; they write what it will."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._compute()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._compute()
