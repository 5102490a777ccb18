"""JoeyNMT's training step: its model, loss, optimiser and schedule, on given batches or on those of its own sampler.

    PYTHON -m benchmarks.peers.joey_loop PIPE TASK FILE

Runs in JoeyNMT's environment and imports nothing of ours. PIPE is an inherited file descriptor: the process receives a
number of updates, runs them, and sends (target tokens, seconds); 0 ends it. It times the body of the loop of
`TrainManager.train_and_validate` between two batches: `_train_step` (which sorts the batch, computes the loss and the
share of right tokens, and differentiates), clipping, the optimiser's step, the schedule's, and the zeroing of
gradients. Choosing and making batches is not timed, nor are its logging and validation run. FILE holds batches, or
pairs if the task has `batch_tokens`.
"""

from __future__ import annotations

import itertools
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.datasets import TokenBatchSampler
from joeynmt.helpers_for_ddp import RandomSubsetSampler
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.transformer_layers import MultiHeadedAttention, PositionwiseFeedForward
from joeynmt.vocabulary import Vocabulary
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

UNK, PAD, BOS, EOS = range(4)  # JoeyNMT's defaults
CPU = torch.device("cpu")
TRAINING = {
    "normalization": "tokens",
    "optimizer": "adam",
    "adam_betas": [0.9, 0.98],
    "learning_rate": 1e-4,
    "clip_grad_norm": 1.0,
    "scheduling": "noam",
    "batch_size": 1,  # of its data loader, which does not run
}


def vocabulary(size: int) -> Vocabulary:
    symbols = SimpleNamespace(
        unk_id=UNK, pad_id=PAD, bos_id=BOS, eos_id=EOS, sep_id=None, sep_token=None, lang_tags=[],
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>",
    )  # fmt: skip
    return Vocabulary([str(number) for number in range(size - 4)], symbols)


def stack(task: dict[str, Any], layers: int) -> dict[str, Any]:
    width, dropout = task["d_model"], task["dropout"]
    return {
        "type": "transformer",
        "num_layers": layers,
        "num_heads": task["num_heads"],
        "embeddings": {"embedding_dim": width, "scale": True, "dropout": dropout},
        "hidden_size": width,
        "ff_size": task["d_ff"],
        "dropout": dropout,
        "layer_norm": "pre",
    }


def manager(task: dict[str, Any], folder: Path) -> TrainManager:
    """JoeyNMT's trainer of a model of the task's shape: one embedding matrix for source, target and output."""
    words = vocabulary(task["vocab_size"])
    shape = {
        "encoder": stack(task, task["encoder_layers"]),
        "decoder": stack(task, task["decoder_layers"]),
        "tied_embeddings": True,
        "tied_softmax": True,
    }
    model = build_model(shape, words, words)
    args = parse_train_args({**TRAINING, "label_smoothing": task["label_smoothing"]})
    model.loss_function = (args.loss, args.label_smoothing)
    if task["dropout_as_ours"]:
        without_inner_dropout(model)
    autocast = {"device_type": "cpu", "enabled": task["autocast"], "dtype": torch.bfloat16}
    return TrainManager(0, model, folder, CPU, autocast=autocast, train_args=args)


def without_inner_dropout(model: nn.Module) -> None:
    """Removes dropout of attention weights and inside the feed-forward, for which JoeyNMT has no separate options."""
    for part in model.modules():
        if isinstance(part, MultiHeadedAttention):
            part.dropout = nn.Identity()
        if isinstance(part, PositionwiseFeedForward):
            part.pwff_layer[2] = nn.Identity()


def renumbered(ids: torch.Tensor) -> torch.Tensor:
    """Interlinear's token ids in JoeyNMT's."""
    first = torch.tensor([PAD, BOS, EOS, UNK])  # those of Interlinear's pad, bos, eos and unk, in this order
    return torch.where(ids < 4, first[ids.clamp(max=3)], ids)


def updates(path: Path) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of the file, source and target from `<s>` to `</s>`, in JoeyNMT's ids; without end."""
    with np.load(path) as file:
        tables = [torch.from_numpy(file[f"{n}{side}"]).long() for n in range(len(file) // 2) for side in ("src", "trg")]
    tables = [renumbered(table) for table in tables]
    return itertools.cycle(zip(tables[::2], tables[1::2], strict=True))


class Sentences(Dataset[tuple[int, torch.Tensor, torch.Tensor]]):
    """The pairs of the file, without `<s>` and `</s>`, as JoeyNMT's samplers ask a data set for them."""

    random_subset = -1  # all of them

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.source, self.target = (
                torch.split_with_sizes(
                    renumbered(torch.from_numpy(file[side]).long()), file[f"{side}_lengths"].tolist()
                )
                for side in ("src", "trg")
            )
        self.indices = list(range(len(self.source)))

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, row: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        return row, self.source[row], self.target[row]


def own_updates(path: Path, batch_tokens: int, seed: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Like `updates`, but in batches that JoeyNMT's sampler makes of the file's pairs, in a new order every epoch."""
    pairs = Sentences(path)
    shuffled = RandomSubsetSampler(pairs, shuffle=True, generator=torch.Generator())
    sampler = TokenBatchSampler(shuffled, batch_size=batch_tokens, drop_last=False, seed=seed)
    begin, end = torch.tensor([BOS]), torch.tensor([EOS])
    for epoch in itertools.count(1):
        sampler.set_seed(seed + epoch)
        for rows in sampler:
            src = [torch.cat([pairs.source[row], end]) for row in rows]
            trg = [torch.cat([begin, pairs.target[row], end]) for row in rows]
            yield pad_sequence(src, True, PAD), pad_sequence(trg, True, PAD)  # [batch, longest] each


def batch_of(src: torch.Tensor, trg: torch.Tensor) -> Batch:
    lengths = (src != PAD).sum(1)
    return Batch(src, lengths, None, trg, None, torch.arange(len(src)), CPU, pad_index=PAD, eos_index=EOS)


def update(trainer: TrainManager, batch: Batch) -> None:
    """The body of JoeyNMT's loop, for one batch per update and without logging."""
    trainer._train_step(batch)
    trainer.clip_grad_fun(parameters=trainer.model.parameters())
    trainer.optimizer.step()
    trainer.scheduler.step(trainer.stats.steps)
    trainer.model.zero_grad()
    trainer.stats.steps += 1


def main(pipe: Connection, task: dict[str, Any], path: Path) -> None:
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(task["threads"])
    torch.manual_seed(task["seed"])
    with tempfile.TemporaryDirectory() as folder:
        trainer = manager(task, Path(folder))
        size = task["batch_tokens"]
        given = own_updates(path, size, task["seed"]) if size else updates(path)
        while steps := pipe.recv():
            taken = [batch_of(*next(given)) for _ in range(steps)]
            began = time.perf_counter()
            for batch in taken:
                update(trainer, batch)
            seconds = time.perf_counter() - began
            pipe.send((sum(int(batch.ntokens) for batch in taken), seconds))
        trainer.tb_writer.close()


if __name__ == "__main__":
    descriptor, task, path = sys.argv[1:]
    main(Connection(int(descriptor)), json.loads(task), Path(path))
