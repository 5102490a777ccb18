"""Compares target tokens a second of our trainer, the plain PyTorch loop of tutorials, and JoeyNMT.

    python -m benchmarks.training --pairs my.tsv --minutes 10 --joeynmt joey/bin/python
    python -m benchmarks.training --pairs my.tsv --minutes 5 --joeynmt joey/bin/python --no-plain --steps 2

Each contestant is a separate process, or two, so that no thread pool or allocator setting affects another. They take
turns of a few steps, on the same batches unless a comparison says otherwise, and only one runs at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.distributed as dist
import typer

from benchmarks import joey
from benchmarks.cores import processor
from benchmarks.trainers import (
    BFLOAT16,
    CONTESTANTS,
    Contestant,
    Task,
    comparisons,
    contestants,
    our_sweep,
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


def take_turns(pipe: Connection, task: Task, contestant: Contestant, part: int = 0, rendezvous: str = "") -> None:
    """Runs a contestant's process: receives a number of updates, runs them, sends (target tokens, seconds); 0 ends it.

    `rendezvous` is the file through which several processes find each other.
    """
    torch.set_num_threads(contestant.threads or max(1, task.threads // contestant.processes))
    torch.manual_seed(task.seed)
    if contestant.processes > 1:
        dist.init_process_group("gloo", f"file://{rendezvous}", rank=part, world_size=contestant.processes)
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
    """Starts the contestant's processes; yields the pipes that start their turns."""
    start = _processes()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pipes = []
        for part in range(contestant.processes):
            ours, theirs = start.Pipe()
            words = (theirs, task, contestant, part, f"{folder}/rendezvous")
            process = start.Process(target=take_turns, args=words, daemon=True)
            process.start()
            theirs.close()  # so that a dead process is an EOFError here, not an endless wait
            stack.callback(process.join)
            pipes.append(ours)
        for pipe in pipes:
            stack.callback(pipe.send, 0)
        yield pipes


def all_running(task: Task, stack: contextlib.ExitStack) -> dict[str, list[Connection]]:
    """Starts every contestant's processes, which `stack` ends."""
    pipes = {name: stack.enter_context(running(task, contestant)) for name, contestant in contestants(task).items()}
    if task.joeynmt:
        written = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        joey.write_updates(written / "updates.npz", updates(task, CONTESTANTS["ours"]))
        joey.write_pairs(written / "pairs.npz", task.pairs)
        settings = joey.settings() | joey.own_settings()
        for name in taking_part(settings):
            setting = settings[name]
            given = written / ("pairs.npz" if setting.own_batches else "updates.npz")
            process = joey.running(task.joeynmt, setting, task.config, task.threads, given, task.batch_tokens)
            pipes[name] = [stack.enter_context(process)]
    return pipes


def measure(task: Task, seconds: float, steps: int, say: Callable[[str], None] = print) -> dict[str, list[float]]:
    """Target tokens a second of every contestant in each round, for about `seconds` and at least three rounds.

    The order is reversed every other round. A first round, which allocates memory, does not count.
    """
    with contextlib.ExitStack() as stack:
        pipes = all_running(task, stack)
        speeds: dict[str, list[float]] = {name: [] for name in pipes}
        began = time.monotonic()
        for turn in itertools.count():
            for name in list(pipes)[:: 1 if turn % 2 else -1]:
                for pipe in pipes[name]:
                    pipe.send(steps)
                results = [pipe.recv() for pipe in pipes[name]]
                if turn:
                    speeds[name].append(results[0][0] / max(seconds for _, seconds in results))
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


def label_of(name: str) -> str:
    found: Contestant | joey.Joey = (CONTESTANTS | our_sweep() | joey.settings() | joey.own_settings())[name]
    return found.label


def report(speeds: dict[str, list[float]]) -> Iterator[str]:
    """The lines of the table: each speed and its ratio to ours, as median and range over the rounds."""
    yield f"{'':<58}{'target tokens a second':>26}{'ours is faster by':>22}"
    for title, (ours, names) in comparisons(speeds).items():
        yield title
        for name in names:
            ratio = "" if name == ours else _spread(_ratios(speeds, ours, name), ".2f")
            yield f"  {label_of(name):<56}{_spread(speeds[name], ',.0f'):>26}{ratio:>22}"
    if not BFLOAT16 & speeds.keys():
        yield "bfloat16 was not measured: oneDNN does not compute it on this processor, and PyTorch would emulate it"
    if "joey" in speeds:
        yield from _against_joeynmt(speeds)
    else:
        yield "JoeyNMT was not measured: --joeynmt names the Python of an environment with it"


def _against_joeynmt(speeds: dict[str, list[float]]) -> Iterator[str]:
    """Our best setting against JoeyNMT's best: on our batches, also only in float32, and each on its own batches."""
    ours = ["ours", *our_sweep()]
    their = [name for name in joey.settings() if name != "joey dropout"]
    claims = {
        "best against best, on our batches": (ours, their),
        "float32 against float32, on our batches": (
            [name for name in ours if name != "ours bfloat16"] if own_precision() == "float32" else ["ours float32"],
            [name for name in their if name != "joey bfloat16"],
        ),
        "best against best, each on its own batches": (ours, list(joey.own_settings())),
    }
    for claim, pools in claims.items():
        measured = ([name for name in pool if name in speeds] for pool in pools)
        best, rival = (max(pool, key=lambda name: statistics.median(speeds[name])) for pool in measured)
        times = _spread(_ratios(speeds, best, rival), ".2f")
        yield f"{claim}: {label_of(best)}, is {times} times as fast as {label_of(rival)}"


def _ratios(speeds: dict[str, list[float]], ours: str, their: str) -> list[float]:
    return [mine / other for mine, other in zip(speeds[ours], speeds[their], strict=True)]


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
    joeynmt: Annotated[
        Path | None, typer.Option(metavar="PYTHON", help="The Python of an environment with JoeyNMT 2.3.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain/--no-plain", help="Measure the plain loop too, or JoeyNMT only.")
    ] = True,
) -> None:
    """Measure our trainer against the plain nn.Transformer loop of a tutorial and JoeyNMT, in turns, on the CPU."""
    if not plain and joeynmt is None:
        raise typer.BadParameter("--no-plain needs --joeynmt: there is nothing else to compare with")
    rival = joey.version(joeynmt) if joeynmt else "no JoeyNMT"
    if pairs is None:
        data, size, origin = random_pairs(20_000, vocab_size), vocab_size, "random tokens"
    else:
        data, size = read_task_pairs(pairs, vocab_size)
        origin = pairs.name
    config = named_architecture(architecture, source_vocab_size=size, target_vocab_size=size)
    task = Task(data, config, batch_tokens, threads or torch.get_num_threads(), joeynmt=joeynmt, plain=plain)
    typer.echo(f"{processor()}, {os.cpu_count()} cores; threads: {task.threads}; our trainer in {own_precision()}")
    typer.echo(f"Python {platform.python_version()}, PyTorch {torch.__version__}; {rival}")
    typer.echo(
        f"architecture {architecture}, vocabulary {size:,}, batches of {batch_tokens:,} target tokens; "
        f"{len(data):,} pairs of {origin}, {data.target.lengths.mean() + 1:.1f} target tokens each"
    )
    for line in report(measure(task, 60 * minutes, steps, typer.echo)):
        typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
