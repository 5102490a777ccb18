"""Counts the sentences whose results change, even by a bit, with their batch; and measures the cost of invariance.

    python -m benchmarks.invariance --bundle bundles/en-fr [--pairs FILE] [--precision int8]

Every sentence is decoded alone first, then in batches of random neighbours, and last among sentences that join and
leave at random. Its token ids and every step's log probability are compared with those decoded alone.
"""

from __future__ import annotations

import platform
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Annotated

import torch
import typer

from benchmarks.cores import processor
from model.backends import prepare
from model.bundle import Bundle
from model.bundle_weights import load_bundle
from model.decoding import greedy_decode
from model.decoding.batch import Backend
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.int8.reference import with_quantised_products
from model.machine import PRECISIONS, keep_freed_memory
from model.transformer import Transformer

SIZES = (2, 7, 16, 33, 64, 200)
ROWS = (24, 64, 200)
TORCH_INT8 = "int8 (PyTorch)"
"""int8 without the C kernels."""
Source = Sequence[int]
Bits = tuple[tuple[int, ...], tuple[str, ...]]


def random_sources(count: int, vocabulary: int, longest: int, seed: int = 0) -> list[list[int]]:
    """Random token ids of random lengths, mostly short, without the reserved ids at the start of the vocabulary."""
    draw = random.Random(seed)
    return [
        [
            draw.randrange(min(300, vocabulary // 2), vocabulary)
            for _ in range(min(longest, int(draw.expovariate(1 / 14))))
        ]
        for _ in range(count)
    ]


def bits(hypothesis: Hypothesis) -> Bits:
    """Tokens and log probabilities in a form whose equality means bitwise equality."""
    return tuple(hypothesis.tokens), tuple(log_prob.hex() for log_prob in hypothesis.log_probs)


def decode_together(backend: Backend, sources: Sequence[Source], limits: Limits, size: int, seed: int) -> list[Bits]:
    """Decodes batches of `size` random neighbours that start together, with results in the order of `sources`."""
    hypotheses = [Hypothesis(source, limits.target(len(source))) for source in sources]
    waiting = random.Random(seed).sample(hypotheses, len(hypotheses))
    batch = backend.new_batch(size, limits)
    while waiting:
        batch.admit([waiting.pop() for _ in range(min(size, len(waiting)))])
        while batch.running:
            batch.step()
    return [bits(hypothesis) for hypothesis in hypotheses]


def decode_at_random(backend: Backend, sources: Sequence[Source], limits: Limits, rows: int, seed: int) -> list[Bits]:
    """Decodes sentences that join at random steps; removes some before the end, once each, to decode them again later.

    Returns the results in the order of `sources`.
    """
    draw = random.Random(seed)
    finished: dict[int, Bits] = {}
    waiting = draw.sample(range(len(sources)), len(sources))
    numbers: dict[int, int] = {}  # of the sentences in the batch, by identity
    dropped: set[int] = set()
    batch = backend.new_batch(rows, limits)
    while waiting or batch.running:
        joining = min(batch.free, len(waiting), draw.choice([0, 0, 1, 2, 5, 16, 40]))
        if joining:
            chosen = [waiting.pop() for _ in range(joining)]
            arrivals = [Hypothesis(sources[number], limits.target(len(sources[number]))) for number in chosen]
            numbers.update((id(hypothesis), number) for hypothesis, number in zip(arrivals, chosen, strict=True))
            batch.admit(arrivals)
        if not batch.running:
            continue
        leaver = draw.choice(list(batch.running))
        if draw.random() < 0.1 and numbers[id(leaver)] not in dropped:
            batch.remove([leaver])
            dropped.add(numbers[id(leaver)])
            waiting.insert(0, numbers.pop(id(leaver)))
        for hypothesis in batch.step() if batch.running else []:
            finished[numbers.pop(id(hypothesis))] = bits(hypothesis)
    return [finished[number] for number in range(len(sources))]


Decode = Callable[[], list[Bits]]


def batchings(backend: Backend, sources: Sequence[Source], limits: Limits) -> dict[str, Decode]:
    """The ways of batching `sources`, which must give the same results as decoding alone."""
    together = {f"batches of {n}": partial(decode_together, backend, sources, limits, n, seed=n) for n in SIZES}
    at_random = {f"at random, {n} rows": partial(decode_at_random, backend, sources, limits, n, seed=n) for n in ROWS}
    return {**together, **at_random}


def differences(backend: Backend, sources: Sequence[Source], limits: Limits) -> Iterator[tuple[str, int]]:
    """For each way of batching, the number of sentences whose bits differ from decoding alone."""
    alone = decode_together(backend, sources, limits, 1, seed=0)
    for name, decode in batchings(backend, sources, limits).items():
        yield name, sum(own != other for own, other in zip(alone, decode(), strict=True))


def backend_of(model: Transformer, precision: str, tiled: bool = True) -> Backend:
    """Like `model.backends.prepare`, and also TORCH_INT8, int8 without the C kernels."""
    if precision == TORCH_INT8:
        return TorchBackend(with_quantised_products(model), "int8", tiled)
    return prepare(model, precision, tiled)


@dataclass(frozen=True)
class Cost:
    """Median target tokens a second with and without batch invariance."""

    invariant: float
    unrestricted: float


def cost(model: Transformer, precision: str, sources: Sequence[Source], limits: Limits, rounds: int = 5) -> Cost | None:
    """The cost of invariance in a saturated engine, measured in turns; None if the backend is invariant by design."""
    backends = [backend_of(model, precision, tiled) for tiled in (True, False)]
    if not isinstance(backends[0], TorchBackend):
        return None
    speeds: list[list[float]] = [[], []]
    for _ in range(rounds + 1):  # the first warms up
        for backend, found in zip(backends, speeds, strict=True):
            started = perf_counter()
            hypotheses = greedy_decode(backend, sources, limits)
            found.append(sum(len(h.tokens) for h in hypotheses) / (perf_counter() - started))
    return Cost(*(statistics.median(found[1:]) for found in speeds))


def sources_of(bundle: Bundle, pairs: Path | None, count: int) -> list[list[int]]:
    """Tokenised sources of a TSV, those within the length limit; by default random tokens."""
    if pairs is None:
        return random_sources(count, bundle.source_tokenizer.vocab_size, min(60, bundle.limits.max_source))
    lines = pairs.read_text(encoding="utf-8").splitlines()
    encoded = (bundle.source_tokenizer.encode_source(line.split("\t")[0]) for line in lines)
    return list(islice((ids for ids in encoded if len(ids) <= bundle.limits.max_source), count))


def main(
    bundle: Annotated[Path, typer.Option(metavar="DIR", help="A bundle.")],
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TSV with sources in the first column. (default: random tokens)")
    ] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(PRECISIONS['cpu'])} or '{TORCH_INT8}'. (default: all)")
    ] = None,
    sentences: Annotated[int, typer.Option(help="Number of sentences.")] = 2000,
    costs: Annotated[bool, typer.Option(help="Also measure the cost of invariance.")] = True,
) -> None:
    """Count the sentences whose translation or scores change with their batch, on one core. It must be 0."""
    torch.set_num_threads(1)
    keep_freed_memory()
    loaded = load_bundle(bundle, torch.device("cpu"))
    sources = sources_of(loaded, pairs, sentences)
    typer.echo(f"{processor()}; Python {platform.python_version()}, PyTorch {torch.__version__}")
    typer.echo(f"{loaded.name}, {len(sources):,} sentences of {pairs.name if pairs else 'random tokens'}")
    changed = 0
    for name in precision or [*PRECISIONS["cpu"], TORCH_INT8]:
        backend = backend_of(loaded.model, name)
        for batching, count in differences(backend, sources, loaded.limits):
            changed += count
            typer.echo(f"{name:<16}{batching:<32}{count:>6} of {len(sources):,} differ")
        if costs and (speeds := cost(loaded.model, name, sources[:512], loaded.limits)):
            lost = 1 - speeds.invariant / speeds.unrestricted
            line = f"{speeds.invariant:,.0f} target tokens a second; {speeds.unrestricted:,.0f} without invariance"
            typer.echo(f"{name:<16}{line} ({lost:.1%})")
        elif costs:
            typer.echo(f"{name:<16}invariance costs nothing: each sentence is computed separately")
    typer.echo(f"{changed} differ")
    raise typer.Exit(changed > 0)


if __name__ == "__main__":
    typer.run(main)
