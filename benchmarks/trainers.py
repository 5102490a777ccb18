"""The contestants of `benchmarks.training`: their common task, and the step and batches of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.config import ModelConfig
from model.machine import keep_freed_memory
from model.positions import sinusoidal_positions
from training.data.batches import Batch, Pairs, epoch_rows
from training.optim.trainer import Recipe, Trainer, resolve_precision

TUTORIAL_BATCH = 128
"""Sentences per batch, in random order."""

BFLOAT16 = {"autocast"}
"""Contestants that are skipped without `computes_bfloat16`, since a step would take a minute."""

PARTS = 4
"""Number of parts, of similar lengths, into which our trainer splits a tutorial's batch for one update."""

Step = Callable[[list[Batch]], float]
"""One update of the weights; returns the loss."""


@dataclass(frozen=True)
class Task:
    """What every contestant trains on."""

    pairs: Pairs
    config: ModelConfig
    batch_tokens: int
    threads: int
    seed: int = 1


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` with its defaults, sinusoidal positions, embeddings and an output projection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pad, self.scale = config.pad_id, math.sqrt(config.d_model)
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.d_model)
        self.positions: Tensor
        self.register_buffer("positions", torch.tensor(sinusoidal_positions(config.max_positions, config.d_model)))
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            d_model=config.d_model,
            nhead=config.num_heads,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            dim_feedforward=config.d_ff,
            dropout=config.dropout,
            batch_first=True,
        )
        self.generator = nn.Linear(config.d_model, config.target_vocab_size)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Maps src [batch, source] and tgt [batch, target] to logits [batch, target, vocabulary]."""
        causal = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)  # [query, key], True where hidden
        source = self.dropout(self.source_embedding(src) * self.scale + self.positions[: src.size(1)])
        target = self.dropout(self.target_embedding(tgt) * self.scale + self.positions[: tgt.size(1)])
        hidden = self.transformer(
            source,
            target,
            tgt_mask=causal,
            src_key_padding_mask=src == self.pad,
            tgt_key_padding_mask=tgt == self.pad,
            memory_key_padding_mask=src == self.pad,
        )
        logits: Tensor = self.generator(hidden)
        return logits


def plain_step(config: ModelConfig, autocast: bool = False) -> Step:
    """The training step of tutorials."""
    model = PlainTransformer(config)
    criterion = nn.CrossEntropyLoss(ignore_index=config.pad_id, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    model.train()

    def step(batches: list[Batch]) -> float:
        (batch,) = batches
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(batch.src, batch.tgt_in)
            loss = criterion(logits.reshape(-1, logits.size(-1)), batch.tgt_out.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.item())

    return step


def our_step(config: ModelConfig) -> Step:
    """The training step of `python -m training train`."""
    keep_freed_memory()
    trainer = Trainer(config, Recipe(steps=1), torch.device("cpu"))
    return lambda batches: trainer.step(batches, 1e-4).item()


def plain_step_keeping_memory(config: ModelConfig) -> Step:
    keep_freed_memory()
    return plain_step(config)


def plain_step_autocast(config: ModelConfig) -> Step:
    return plain_step(config, autocast=True)


Rows = NDArray[np.int64]


def whole(pairs: Pairs, rows: Rows, config: ModelConfig) -> list[Batch]:
    return [pairs.batch(rows, config)]


def by_length(pairs: Pairs, rows: Rows, config: ModelConfig) -> list[Batch]:
    longest = np.maximum(pairs.source.lengths[rows], pairs.target.lengths[rows])
    parts = np.array_split(rows[np.argsort(longest, kind="stable")], PARTS)
    return [pairs.batch(part, config) for part in parts if len(part)]


@dataclass(frozen=True)
class Contestant:
    label: str
    make_step: Callable[[ModelConfig], Step]
    shuffled: bool = False
    """Updates on `TUTORIAL_BATCH` sentences of any lengths; by default on our trainer's batches."""
    cut: Callable[[Pairs, Rows, ModelConfig], list[Batch]] = whole


CONTESTANTS = {
    "ours": Contestant("our trainer", our_step),
    "plain": Contestant("plain loop, float32", plain_step),
    "autocast": Contestant("plain loop, bfloat16 autocast", plain_step_autocast),
    "memory": Contestant("plain loop, float32, our setting of the allocator", plain_step_keeping_memory),
    "ours shuffled": Contestant(f"our trainer, each batch split in {PARTS} by length", our_step, True, by_length),
    "plain shuffled": Contestant("plain loop, float32", plain_step, True),
}
COMPARISONS = {
    "On our trainer's batches, of similar lengths": ("ours", ("ours", "plain", "autocast", "memory")),
    f"On batches of {TUTORIAL_BATCH} sentences in random order, as tutorials make them": (
        "ours shuffled",
        ("ours shuffled", "plain shuffled"),
    ),
    "Each on its own batches of the same sentences": ("ours", ("ours", "plain shuffled")),
}
"""Comparisons by title: a contestant, and those whose speeds divide its own. All get the same batches unless the title
says otherwise."""


def computes_bfloat16() -> bool:
    """Whether oneDNN computes bfloat16 products on this processor; else PyTorch emulates them, many times slower."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def taking_part(names: Iterable[str]) -> list[str]:
    """The contestants of `names` that this processor can run."""
    return [name for name in names if name not in BFLOAT16 or computes_bfloat16()]


def own_precision() -> str:
    """The precision that our trainer's `auto` chooses on this processor."""
    return resolve_precision("auto", torch.device("cpu"))


def updates(task: Task, contestant: Contestant) -> Iterator[list[Batch]]:
    """An endless stream of updates; the sentences of one seed are the same in every process."""
    for epoch in itertools.count():
        if contestant.shuffled:
            order = np.random.Generator(np.random.PCG64([task.seed, epoch])).permutation(len(task.pairs))
            parts = np.array_split(order, math.ceil(len(order) / TUTORIAL_BATCH))
        else:
            parts = epoch_rows(task.pairs, task.batch_tokens, task.seed, epoch)
        yield from (contestant.cut(task.pairs, rows, task.config) for rows in parts)
