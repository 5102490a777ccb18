"""Target tokens a second of our trainer against the plain PyTorch loop that a tutorial would write, and JoeyNMT.

    python -m benchmarks.training --pairs my.tsv --minutes 10 --joeynmt joey/bin/python

Each contestant is a process of its own, or two, so that no thread pool or allocator setting reaches another; they take
turns of a few steps, all on the same batches, and only one runs at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import platform
import statistics
import tempfile
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
import torch.distributed as dist
import typer
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks import joey
from model.allocator import keep_freed_memory
from model.config import ARCHITECTURES, ModelConfig, named_architecture
from model.tokenizer import Tokenizer
from model.transformer import sinusoidal_positions
from training.batches import Batch, Pairs, epoch_rows
from training.corpus import read_pairs
from training.distributed import ALONE, World
from training.trainer import Recipe, Trainer, resolve_precision
from training.vocabulary import train_vocabulary

MAX_PAIRS = 50_000
"""Of a file, as many as these are used: for a measurement more only take longer to read."""
MAX_TOKENS = 128
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile")
JOEYNMT_TITLE = "Against JoeyNMT, on our trainer's batches"
TUTORIAL_BATCH = 128
"""Sentences a batch, in the order the shuffle left them."""

PARTS = 4
"""Into how many batches of like lengths our trainer cuts a tutorial's; one update is still made of all of it."""

Step = Callable[[list[Batch]], float]
"""One update of the weights; returns the loss."""


@dataclass(frozen=True)
class Task:
    """What every contestant is given. `joeynmt`: the Python of an environment that has it, if it takes part."""

    pairs: Pairs
    config: ModelConfig
    batch_tokens: int
    threads: int
    seed: int = 1
    joeynmt: Path | None = None


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


def our_step(config: ModelConfig, precision: str = "auto", world: World = ALONE) -> Step:
    """What `python -m training train` does with each batch."""
    keep_freed_memory()
    trainer = Trainer(config, Recipe(steps=1, precision=precision), torch.device("cpu"), world)
    return lambda batches: trainer.step(batches, 1e-4).item()


def our_step_float32(config: ModelConfig) -> Step:
    return our_step(config, "float32")


def our_step_bfloat16(config: ModelConfig) -> Step:
    return our_step(config, "bfloat16")


def our_step_together(config: ModelConfig) -> Step:
    """One of several processes, as torchrun starts them."""
    return our_step(config, world=World(dist.get_rank(), dist.get_world_size()))


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
    processes: int = 1
    """Among which the task's threads are divided, and each batch."""
    threads: int | None = None
    """Not those of the task."""


CONTESTANTS = {
    "ours": Contestant("our trainer", our_step),
    "plain": Contestant("plain loop, float32", plain_step),
    "autocast": Contestant("plain loop, bfloat16 autocast", plain_step_autocast),
    "memory": Contestant("plain loop, float32, our setting of the allocator", plain_step_keeping_memory),
    "ours shuffled": Contestant(f"our trainer, each batch cut in {PARTS} by length", our_step, True, by_length),
    "plain shuffled": Contestant("plain loop, float32", plain_step, True),
}
OUR_SWEEP = {
    "ours float32": Contestant("our trainer, float32", our_step_float32),
    "ours bfloat16": Contestant("our trainer, bfloat16", our_step_bfloat16),
    "ours one thread": Contestant("our trainer, 1 thread", our_step, threads=1),
    "ours together": Contestant("our trainer, 2 processes", our_step_together, processes=2),
}
"""Beside JoeyNMT's: each at its best."""
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


def comparisons(with_joeynmt: bool) -> dict[str, tuple[str, tuple[str, ...]]]:
    if not with_joeynmt:
        return COMPARISONS
    return COMPARISONS | {JOEYNMT_TITLE: ("ours", ("ours", *OUR_SWEEP, *joey.settings()))}


def updates(task: Task, contestant: Contestant, part: int = 0) -> Iterator[list[Batch]]:
    """What each update is made of, without end; the sentences of one seed are the same in every process.

    Where several processes are one contestant, the `part` of one.
    """
    for epoch in itertools.count():
        if contestant.shuffled:
            order = np.random.Generator(np.random.PCG64([task.seed, epoch])).permutation(len(task.pairs))
            parts = np.array_split(order, math.ceil(len(order) / TUTORIAL_BATCH))
        else:
            parts = epoch_rows(task.pairs, task.batch_tokens, task.seed, epoch)
        if contestant.processes > 1:
            yield from ([task.pairs.batch(rows, task.config, part, contestant.processes)] for rows in parts)
        else:
            yield from (contestant.cut(task.pairs, rows, task.config) for rows in parts)


def take_turns(pipe: Connection, task: Task, contestant: Contestant, part: int = 0, meeting: str = "") -> None:
    """A contestant's process: told a number of updates, makes them and tells (target tokens, seconds); 0 ends it.

    Several find each other by the file `meeting`.
    """
    torch.set_num_threads(contestant.threads or max(1, task.threads // contestant.processes))
    torch.manual_seed(task.seed)
    if contestant.processes > 1:
        dist.init_process_group("gloo", f"file://{meeting}", rank=part, world_size=contestant.processes)
    step = contestant.make_step(task.config)
    batches = updates(task, contestant, part)
    while steps := pipe.recv():
        taken = list(itertools.islice(batches, steps))
        began = time.perf_counter()
        for batch in taken:
            step(batch)
        seconds = time.perf_counter() - began
        pipe.send((sum(part.target_tokens for batch in taken for part in batch), seconds))


@contextlib.contextmanager
def running(task: Task, contestant: Contestant) -> Iterator[list[Connection]]:
    """The contestant's processes, which wait to be told their turns."""
    start = _processes()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pipes = []
        for part in range(contestant.processes):
            ours, theirs = start.Pipe()
            words = (theirs, task, contestant, part, f"{folder}/meeting")
            process = start.Process(target=take_turns, args=words, daemon=True)
            process.start()
            theirs.close()  # so that a process that dies is an EOFError here, not a wait without end
            stack.callback(process.join)
            pipes.append(ours)
        for pipe in pipes:
            stack.callback(pipe.send, 0)
        yield pipes


def all_running(task: Task, stack: contextlib.ExitStack) -> dict[str, list[Connection]]:
    """Every contestant's processes, which `stack` ends."""
    ours = CONTESTANTS | (OUR_SWEEP if task.joeynmt else {})
    pipes = {name: stack.enter_context(running(task, contestant)) for name, contestant in ours.items()}
    if task.joeynmt:
        written = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "updates.npz"
        joey.write_updates(written, updates(task, CONTESTANTS["ours"]))
        for name, setting in joey.settings().items():
            process = joey.running(task.joeynmt, setting, task.config, task.threads, written)
            pipes[name] = [stack.enter_context(process)]
    return pipes


def measure(task: Task, seconds: float, steps: int, say: Callable[[str], None] = print) -> dict[str, list[float]]:
    """Target tokens a second of every contestant, one figure a round, for about `seconds` and three rounds at least.

    The order is reversed every other round; a first round, in which memory is allocated, does not count.
    """
    with contextlib.ExitStack() as stack:
        pipes = all_running(task, stack)
        speeds: dict[str, list[float]] = {name: [] for name in pipes}
        began = time.monotonic()
        for turn in itertools.count():
            for name in list(pipes)[:: 1 if turn % 2 else -1]:
                for pipe in pipes[name]:
                    pipe.send(steps)
                told = [pipe.recv() for pipe in pipes[name]]
                if turn:
                    speeds[name].append(told[0][0] / max(taken for _, taken in told))
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


def label_of(name: str) -> str:
    found: Contestant | joey.Joey = (CONTESTANTS | OUR_SWEEP | joey.settings())[name]
    return found.label


def report(speeds: dict[str, list[float]]) -> Iterator[str]:
    """The table: each speed, and how many times that of the others ours is, both by round: median and spread."""
    yield f"{'':<58}{'target tokens a second':>26}{'ours is faster by':>22}"
    for title, (ours, names) in comparisons("joey" in speeds).items():
        yield title
        for name in names:
            ratio = "" if name == ours else _spread(_ratios(speeds, ours, name), ".2f")
            yield f"  {label_of(name):<56}{_spread(speeds[name], ',.0f'):>26}{ratio:>22}"
    if "joey" in speeds:
        yield from _against_joeynmt(speeds)
    else:
        yield "JoeyNMT was not measured: --joeynmt PYTHON names the Python of an environment that has it"


def _against_joeynmt(speeds: dict[str, list[float]]) -> Iterator[str]:
    """The best of ours against the best of JoeyNMT as it is, and the same among those in float32."""
    their = [name for name in joey.settings() if name != "joey dropout"]
    for kind, without in (("best against best", ""), ("float32 against float32", "bfloat16")):
        own = [name for name in OUR_SWEEP if not without or without not in name]
        own = own if without and resolve_precision("auto", torch.device("cpu")) != "float32" else ["ours", *own]
        pools = own, [name for name in their if not without or without not in name]
        best, rival = (max(pool, key=lambda name: statistics.median(speeds[name])) for pool in pools)
        times = _spread(_ratios(speeds, best, rival), ".2f")
        yield f"{kind}: {label_of(best)}, is {times} times as fast as {label_of(rival)}"


def _ratios(speeds: dict[str, list[float]], ours: str, their: str) -> list[float]:
    return [mine / other for mine, other in zip(speeds[ours], speeds[their], strict=True)]


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
    joeynmt: Annotated[
        Path | None, typer.Option(metavar="PYTHON", help="The Python of an environment that has JoeyNMT 2.3.")
    ] = None,
) -> None:
    """Measure our trainer against the plain nn.Transformer loop of a tutorial and JoeyNMT, in turns, on the CPU."""
    rival = joey.version(joeynmt) if joeynmt else "no JoeyNMT"
    if pairs is None:
        data, size, origin = made_pairs(20_000, vocab_size), vocab_size, "random tokens"
    else:
        data, size = read_task_pairs(pairs, vocab_size)
        origin = pairs.name
    config = named_architecture(architecture, source_vocab_size=size, target_vocab_size=size)
    task = Task(data, config, batch_tokens, threads or torch.get_num_threads(), joeynmt=joeynmt)
    typer.echo(f"{processor()}, {os.cpu_count()} cores; threads: {task.threads}")
    typer.echo(f"Python {platform.python_version()}, PyTorch {torch.__version__}; {rival}")
    typer.echo(
        f"architecture {architecture}, vocabulary {size:,}, batches of {batch_tokens:,} target tokens; "
        f"{len(data):,} pairs of {origin}, {data.target.lengths.mean() + 1:.1f} target tokens each"
    )
    for line in report(measure(task, 60 * minutes, steps, typer.echo)):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
