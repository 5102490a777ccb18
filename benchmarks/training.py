"""Compares target tokens a second of our trainer and the plain PyTorch loop of tutorials.

    python -m benchmarks.training --pairs my.tsv --minutes 10

Each contestant is a separate process, so that no thread pool or allocator setting affects another. They take turns of a
few steps, on the same batches unless a comparison says otherwise, and only one runs at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from benchmarks.cores import processor
from benchmarks.trainers import (
    BFLOAT16,
    COMPARISONS,
    CONTESTANTS,
    Contestant,
    Task,
    own_precision,
    taking_part,
    updates,
)
from model.config import ARCHITECTURES, named_architecture
from model.tokenizer import Tokenizer, Tokenizers
from training.corpora.corpus import read_pairs
from training.data.batches import Pairs
from training.data.vocabulary import train_vocabulary
from training.optim.trainer import Recipe

MAX_PAIRS = 50_000
"""Maximum pairs read from a file, enough for a measurement."""
MAX_TOKENS = 128


def take_turns(pipe: Connection, task: Task, contestant: Contestant) -> None:
    """Runs a contestant's process: receives a number of updates, runs them, sends target tokens a second; 0 ends it."""
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
        pipe.send(sum(part.target_tokens for batch in taken for part in batch) / seconds)


@contextlib.contextmanager
def running(task: Task, contestant: Contestant) -> Iterator[Connection]:
    """Starts the contestant's process; yields the pipe that starts its turns."""
    start = _processes()
    ours, theirs = start.Pipe()
    process = start.Process(target=take_turns, args=(theirs, task, contestant), daemon=True)
    process.start()
    theirs.close()  # so that a dead process is an EOFError here, not an endless wait
    try:
        yield ours
    finally:
        with contextlib.suppress(OSError):
            ours.send(0)
        process.join()


def measure(task: Task, seconds: float, steps: int, say: Callable[[str], None] = print) -> dict[str, list[float]]:
    """Target tokens a second of every contestant in each round, for about `seconds` and at least three rounds.

    The order is reversed every other round. A first round, which allocates memory, does not count.
    """
    with contextlib.ExitStack() as stack:
        names = taking_part(CONTESTANTS)
        pipes = {name: stack.enter_context(running(task, CONTESTANTS[name])) for name in names}
        speeds: dict[str, list[float]] = {name: [] for name in pipes}
        began = time.monotonic()
        for turn in itertools.count():
            for name in list(pipes)[:: 1 if turn % 2 else -1]:
                pipes[name].send(steps)
                speed = pipes[name].recv()
                if turn:
                    speeds[name].append(speed)
            if turn == 1:
                say(f"one round takes {(time.monotonic() - began) / 2:.0f} s")
            if turn >= 3 and time.monotonic() - began >= seconds:
                break
    return speeds


def _processes() -> SpawnContext | ForkServerContext:
    """A context that starts fresh processes; with a fork server, if available, that has done the slow imports."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    # The last is what the first optimizer of a process imports.
    context.set_forkserver_preload(["training.optim.trainer", "training.data.vocabulary", "torch._dynamo"])
    return context


def read_task_pairs(path: Path, vocab_size: int) -> tuple[Pairs, int]:
    """Tokenised pairs of a file, and the size of the vocabulary learned from them."""
    pairs = read_pairs(path)[0][:MAX_PAIRS]
    sentences = [sentence for pair in pairs for sentence in pair]
    tokenizer = Tokenizer(train_vocabulary(sentences, vocab_size, ["en", "fr"]))
    both = Tokenizers.joint(tokenizer)
    encoded = [both.encode_pair(*pair) for pair in pairs]
    kept = [pair for pair in encoded if max(map(len, pair)) <= MAX_TOKENS]
    return Pairs.of([source for source, _ in kept], [target for _, target in kept]), tokenizer.vocab_size


def random_pairs(count: int, vocab_size: int, seed: int = 1) -> Pairs:
    """Random tokens in log-normal lengths like those of everyday English and French: 9 and 11 tokens with the end."""
    random = np.random.Generator(np.random.PCG64(seed))
    source = random.lognormal(2.22, 0.31, count)
    target = source * random.lognormal(0.13, 0.21, count)
    sides = [[random.integers(4, vocab_size, max(1, round(n) - 1)).tolist() for n in side] for side in (source, target)]
    return Pairs.of(*sides)


def report(speeds: dict[str, list[float]]) -> Iterator[str]:
    """The lines of the table: each speed and its ratio to ours, as median and range over the rounds."""
    yield f"{'':<58}{'target tokens a second':>26}{'ours is faster by':>22}"
    for title, (ours, names) in COMPARISONS.items():
        yield title
        for name in [name for name in names if name in speeds]:
            ratios = [mine / other for mine, other in zip(speeds[ours], speeds[name], strict=True)]
            ratio = "" if name == ours else _spread(ratios, ".2f")
            yield f"  {CONTESTANTS[name].label:<56}{_spread(speeds[name], ',.0f'):>26}{ratio:>22}"
    if not BFLOAT16 & speeds.keys():
        yield "bfloat16 was not measured: oneDNN does not compute it on this processor, and PyTorch would emulate it"


def _spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main(
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sentence pairs to train on (TSV). (default: random)")
    ] = None,
    minutes: Annotated[float, typer.Option(help="Duration, but at least three rounds.")] = 1.0,
    architecture: Annotated[str, typer.Option(help=f"One of {', '.join(ARCHITECTURES)}.")] = "small",
    vocab_size: Annotated[int, typer.Option(help="Pieces of the joint vocabulary.")] = 8000,
    batch_tokens: Annotated[int, typer.Option(help="Padded target tokens per batch.")] = Recipe.batch_tokens,
    steps: Annotated[int, typer.Option(help="Updates per turn.")] = 3,
    threads: Annotated[int | None, typer.Option(help="CPU threads. (default: PyTorch's)")] = None,
) -> None:
    """Measure our trainer against the plain nn.Transformer loop of a tutorial, in turns, on the CPU."""
    if pairs is None:
        data, size, origin = random_pairs(20_000, vocab_size), vocab_size, "random tokens"
    else:
        data, size = read_task_pairs(pairs, vocab_size)
        origin = pairs.name
    config = named_architecture(architecture, source_vocab_size=size, target_vocab_size=size)
    task = Task(data, config, batch_tokens, threads or torch.get_num_threads())
    typer.echo(f"{processor()}, {os.cpu_count()} cores; threads: {task.threads}; our trainer in {own_precision()}")
    typer.echo(f"Python {platform.python_version()}, PyTorch {torch.__version__}")
    typer.echo(
        f"architecture {architecture}, vocabulary {size:,}, batches of {batch_tokens:,} target tokens; "
        f"{len(data):,} pairs of {origin}, {data.target.lengths.mean() + 1:.1f} target tokens each"
    )
    for line in report(measure(task, 60 * minutes, steps, typer.echo)):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
