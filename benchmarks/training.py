"""Target tokens a second of our trainer against the plain PyTorch loop that a tutorial would write.

    python -m benchmarks.training --pairs my.tsv --minutes 10

Each contestant is a process of its own, so that no thread pool or allocator setting reaches another; they take turns
of a few steps, all on the same batches, and only one runs at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from torch import Tensor, nn

from model.allocator import keep_freed_memory
from model.config import ARCHITECTURES, ModelConfig, named_architecture
from model.tokenizer import Tokenizer
from model.transformer import sinusoidal_positions
from training.batches import Batch, Pairs, epoch_rows
from training.corpus import read_pairs
from training.trainer import Recipe, Trainer
from training.vocabulary import train_vocabulary

MAX_PAIRS = 50_000
"""Of a file, as many as these are used: for a measurement more only take longer to read."""
MAX_TOKENS = 128
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile")
TUTORIAL_BATCH = 128
"""Sentences a batch, in the order the shuffle left them."""

PARTS = 4
"""Into how many batches of like lengths our trainer cuts a tutorial's; one update is still made of all of it."""

Step = Callable[[list[Batch]], float]
"""One update of the weights; returns the loss."""


@dataclass(frozen=True)
class Task:
    """What every contestant is given."""

    pairs: Pairs
    config: ModelConfig
    batch_tokens: int
    threads: int
    seed: int = 1


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` with its defaults, embeddings and sinusoidal positions before it, a generator behind."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pad, self.scale = config.pad_id, math.sqrt(config.d_model)
        self.source_embedding = nn.Embedding(config.source_vocab_size, config.d_model)
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.d_model)
        self.positions: Tensor
        self.register_buffer("positions", sinusoidal_positions(config.max_positions, config.d_model))
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
        """src [batch, source] and tgt [batch, target] to logits [batch, target, vocabulary]."""
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
    """The loop's body as tutorials have it."""
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
    """What `python -m training train` does with each batch."""
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
    """Each update on as many sentences as tutorials take, whatever their lengths; else on our trainer's batches."""
    cut: Callable[[Pairs, Rows, ModelConfig], list[Batch]] = whole


CONTESTANTS = {
    "ours": Contestant("our trainer", our_step),
    "plain": Contestant("plain loop, float32", plain_step),
    "autocast": Contestant("plain loop, bfloat16 autocast", plain_step_autocast),
    "memory": Contestant("plain loop, float32, our setting of the allocator", plain_step_keeping_memory),
    "ours shuffled": Contestant(f"our trainer, each batch cut in {PARTS} by length", our_step, True, by_length),
    "plain shuffled": Contestant("plain loop, float32", plain_step, True),
}
COMPARISONS = {
    "On our trainer's batches, of like lengths": ("ours", ("ours", "plain", "autocast", "memory")),
    f"On batches of {TUTORIAL_BATCH} sentences in random order, as tutorials make them": (
        "ours shuffled",
        ("ours shuffled", "plain shuffled"),
    ),
    "Each on its own batches of the same sentences": ("ours", ("ours", "plain shuffled")),
}
"""What is compared: of each title, whose speed is divided by those of whom. All on one title get the same batches,
but for the last."""


def updates(task: Task, contestant: Contestant) -> Iterator[list[Batch]]:
    """What each update is made of, without end; the sentences of one seed are the same in every process."""
    for epoch in itertools.count():
        if contestant.shuffled:
            order = np.random.Generator(np.random.PCG64([task.seed, epoch])).permutation(len(task.pairs))
            parts = np.array_split(order, math.ceil(len(order) / TUTORIAL_BATCH))
        else:
            parts = epoch_rows(task.pairs, task.batch_tokens, task.seed, epoch)
        yield from (contestant.cut(task.pairs, rows, task.config) for rows in parts)


def take_turns(pipe: Connection, task: Task, contestant: Contestant) -> None:
    """A contestant's process: told a number of updates, makes them and tells (target tokens, seconds); 0 ends it."""
    torch.set_num_threads(task.threads)
    torch.manual_seed(task.seed)
    step = contestant.make_step(task.config)
    batches = updates(task, contestant)
    while steps := pipe.recv():
        taken = list(itertools.islice(batches, steps))
        began = time.perf_counter()
        for batch in taken:
            step(batch)
        seconds = time.perf_counter() - began
        pipe.send((sum(part.target_tokens for batch in taken for part in batch), seconds))


def measure(task: Task, seconds: float, steps: int, say: Callable[[str], None] = print) -> dict[str, list[float]]:
    """Target tokens a second of every contestant, one figure a round, for about `seconds` and three rounds at least.

    The order is reversed every other round; a first round, in which memory is allocated, does not count.
    """
    processes = _processes()
    speeds: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with contextlib.ExitStack() as stack:
        pipes = {}
        for name, contestant in CONTESTANTS.items():
            pipes[name], theirs = processes.Pipe()
            process = processes.Process(target=take_turns, args=(theirs, task, contestant), daemon=True)
            process.start()
            theirs.close()  # so that a process that dies is an EOFError here, not a wait without end
            stack.callback(process.join)
            stack.callback(pipes[name].send, 0)
        began = time.monotonic()
        for turn in itertools.count():
            for name in list(CONTESTANTS)[:: 1 if turn % 2 else -1]:
                pipes[name].send(steps)
                tokens, taken = pipes[name].recv()
                if turn:
                    speeds[name].append(tokens / taken)
            if turn == 1:
                say(f"one round takes {(time.monotonic() - began) / 2:.0f} s")
            if turn >= 3 and time.monotonic() - began >= seconds:
                break
    return speeds


def _processes() -> SpawnContext | ForkServerContext:
    """Fresh processes; where there is fork, of one that has imported much and done nothing, since importing is slow."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["training.trainer", "training.vocabulary"])
    return context


def read_task_pairs(path: Path, vocab_size: int) -> tuple[Pairs, int]:
    """Tokenised pairs of a file, and the size of the vocabulary learned from them."""
    pairs = read_pairs(path)[0][:MAX_PAIRS]
    sentences = [sentence for pair in pairs for sentence in pair]
    tokenizer = Tokenizer(train_vocabulary(sentences, vocab_size, ["en", "fr"]))
    encoded = [(tokenizer.encode(pair.source), tokenizer.encode(pair.target)) for pair in pairs]
    kept = [pair for pair in encoded if max(map(len, pair)) <= MAX_TOKENS]
    return Pairs.of([source for source, _ in kept], [target for _, target in kept]), tokenizer.vocab_size


def made_pairs(count: int, vocab_size: int, seed: int = 1) -> Pairs:
    """Random tokens in lengths like those of everyday English and French: 9 and 11 tokens with the end, log-normal."""
    random = np.random.Generator(np.random.PCG64(seed))
    source = random.lognormal(2.22, 0.31, count)
    target = source * random.lognormal(0.13, 0.21, count)
    sides = [[random.integers(4, vocab_size, max(1, round(n) - 1)).tolist() for n in side] for side in (source, target)]
    return Pairs.of(*sides)


def processor() -> str:
    """The processor's name and which of the instructions that matter to matrix products it has, as far as known."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        lines = [line.partition(":") for line in text.splitlines()]
        fields = {name.strip(): value.strip() for name, _, value in lines}
        has = [name for name in INSTRUCTIONS if name in fields.get("flags", "").split()]
        if "model name" in fields:
            return f"{fields['model name']} ({' '.join(has)}{'' if 'amx_tile' in has else ', no AMX'})"
    return platform.processor() or platform.machine()


def report(speeds: dict[str, list[float]]) -> Iterator[str]:
    """The table: each speed, and how many times that of the others ours is, both by round: median and spread."""
    yield f"{'':<52}{'target tokens a second':>26}{'ours is faster by':>22}"
    for title, (ours, names) in COMPARISONS.items():
        yield title
        for name in names:
            ratios = [our / their for our, their in zip(speeds[ours], speeds[name], strict=True)]
            ratio = "" if name == ours else _spread(ratios, ".2f")
            yield f"  {CONTESTANTS[name].label:<50}{_spread(speeds[name], ',.0f'):>26}{ratio:>22}"


def _spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main(
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs to train on, a TSV; without it, random ones.")
    ] = None,
    minutes: Annotated[float, typer.Option(help="How long to measure; three rounds are made in any case.")] = 1.0,
    architecture: Annotated[str, typer.Option(help=f"One of {', '.join(ARCHITECTURES)}.")] = "small",
    vocab_size: Annotated[int, typer.Option(help="Pieces of the joint vocabulary.")] = 8000,
    batch_tokens: Annotated[int, typer.Option(help="Padded target tokens a batch.")] = Recipe.batch_tokens,
    steps: Annotated[int, typer.Option(help="Updates a turn.")] = 3,
    threads: Annotated[int | None, typer.Option(help="Without it, as many as PyTorch takes.")] = None,
) -> None:
    """Measure our trainer against the plain nn.Transformer loop of a tutorial, in turns, on the CPU."""
    if pairs is None:
        data, size, origin = made_pairs(20_000, vocab_size), vocab_size, "random tokens"
    else:
        data, size = read_task_pairs(pairs, vocab_size)
        origin = pairs.name
    config = named_architecture(architecture, source_vocab_size=size, target_vocab_size=size)
    task = Task(data, config, batch_tokens, threads or torch.get_num_threads())
    typer.echo(f"{processor()}, {os.cpu_count()} cores; threads: {task.threads}")
    typer.echo(f"Python {platform.python_version()}, PyTorch {torch.__version__}")
    typer.echo(
        f"architecture {architecture}, vocabulary {size:,}, batches of {batch_tokens:,} target tokens; "
        f"{len(data):,} pairs of {origin}, {data.target.lengths.mean() + 1:.1f} target tokens each"
    )
    for line in report(measure(task, 60 * minutes, steps, typer.echo)):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
