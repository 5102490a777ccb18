"""The service over HTTP under load, against its engine alone and against common ways to serve CTranslate2.

    python -m benchmarks.serving --pairs my.tsv --seconds 5
    python -m benchmarks.serving --pairs my.tsv --no-peers --libretranslate ENVIRONMENT/bin/python
    python -m benchmarks.serving --pairs my.tsv --only-waves

Every server is pinned to one core and the load generator to another; the servers take turns, and the others are paused
meanwhile. Closed loop: the number of clients shown, each with one request at a time; one that is refused waits as long
as `Retry-After` says. Open loop: random arrivals at multiples of the server's own capacity, the best throughput of its
closed loops; latency counts from the arrival. Waves (`benchmarks.waves`): on one core, then on all, a worker each.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.cores import Cores, pinned, processor
from benchmarks.load import Figures, Generator, Load, compiler, figures, medians
from benchmarks.sentences import Workload, workloads
from benchmarks.servers import (
    CACHE,
    ROOT,
    Contestant,
    Server,
    batched,
    convert,
    libretranslate,
    locked,
    ours,
    running,
)
from benchmarks.waves import FLOOD_CLIENTS, beside_flood, rows, waves

CLIENTS = (1, 4, 16, 64, 256)
FACTORS = (0.5, 0.8, 1.0, 1.5, 2.0)
BATCHINGS = [(size, timeout_s) for size in (16, 32, 64, 128) for timeout_s in (0.002, 0.01, 0.05)]
"""Values of LitServe's max_batch_size and batch_timeout in the sweep."""
SWEEP_CLIENTS = 64
WHOLE = Load("closed", 0)
"""The load of the engine alone: all sentences are available from the start."""


def engine_alone(bundle: Path, workload: Workload, precision: str, seconds: float, core: int | None) -> Figures:
    """Runs our engine on the servers' core without HTTP, in a separate process (`benchmarks.alone`)."""
    texts = workload.bodies.with_suffix(".txt")
    texts.write_text("".join(text + "\n" for text in workload.texts), encoding="utf-8")
    words = [sys.executable, "-m", "benchmarks.alone", str(bundle), str(texts), precision, str(seconds)]
    with pinned(core):
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        output = subprocess.run(words, cwd=ROOT, env=environ, check=True, capture_output=True, text=True)
    figures: Figures = json.loads(output.stdout)
    return figures


@dataclass(frozen=True)
class Bench:
    """Settings shared by all measurements."""

    bundle: Path
    cores: Cores
    generator: Generator
    texts: Mapping[str, Workload]
    loads: list[Load]
    say: Callable[[str], None]

    @property
    def workloads(self) -> list[Workload]:
        """Those of the closed and open loops."""
        return [self.texts[name] for name in ("short", "mixed") if name in self.texts]

    @property
    def probe(self) -> bytes:
        return self.texts["short"].bodies.read_bytes().splitlines()[0]

    def running(self, contestant: Contestant) -> contextlib.AbstractContextManager[Server]:
        return running(contestant, self.bundle, self.cores.server, self.probe)

    def best_batching(self, model: Path, batchings: Sequence[tuple[int, float]]) -> Contestant:
        """LitServe with the settings of highest throughput at 64 clients, summed over workloads; prints the sweep."""
        speeds = {}
        for size, timeout_s in batchings:
            contestant = batched(model, size, timeout_s)
            with self.running(contestant) as server:
                load = Load("closed", SWEEP_CLIENTS)
                found = [figures(self.generator.run(server.port, w.bodies, load))["requests"] for w in self.workloads]
            self.say(f"  {contestant.label}: " + ", ".join(f"{speed:,.0f}" for speed in found) + " requests/s")
            speeds[size, timeout_s] = sum(found)
        return batched(model, *max(speeds, key=speeds.__getitem__))

    def measure(self, server: Server, workload: Workload, seed: int) -> dict[Load, Figures]:
        """Measures one round of one server: closed loops, then open loops at multiples of their best throughput."""
        found: dict[Load, Figures] = {}
        for load in self.loads:
            capacity = max((f["requests"] for done, f in found.items() if done.kind == "closed"), default=1.0)
            found[load] = figures(self.generator.run(server.port, workload.bodies, load, capacity, seed))
            server.wait_until_ready(self.probe)  # leftover requests are finished by then
        return found


Results = dict[str, dict[str, dict[Load, list[Figures]]]]
"""Figures of each round by workload, label and load."""


def rounds(bench: Bench, servers: Sequence[Server], count: int, precision: str) -> tuple[Results, Results]:
    """Measures all servers, and the engine alone; the order is reversed every other round."""
    served: Results = {
        w.name: {s.contestant.label: {load: [] for load in bench.loads} for s in servers} for w in bench.workloads
    }
    whole = Load("closed", 0)
    alone: Results = {w.name: {"engine alone": {whole: []}} for w in bench.workloads}
    for server in servers:
        server.signal(signal.SIGSTOP)
    for number, workload in itertools.product(range(count), bench.workloads):
        bench.say(f"round {number + 1} of {count}, {workload.name} sentences")
        speed = engine_alone(bench.bundle, workload, precision, bench.generator.seconds, bench.cores.server)
        alone[workload.name]["engine alone"][WHOLE].append(speed)
        for server in servers[:: -1 if number % 2 else 1]:
            with server.turn():
                for load, found in bench.measure(server, workload, number + 1).items():
                    served[workload.name][server.contestant.label][load].append(found)
    return served, alone


def measure_waves(bench: Bench, contestants: Sequence[Contestant], count: int) -> Iterator[str]:
    """The lines of the tables of waves, on the servers' core and on all cores."""
    for core, workers, where in ((bench.cores.server, 1, "one core"), (None, 0, "all cores")):
        yield f"waves, on {where}"
        for contestant in contestants:
            with running(contestant, bench.bundle, core, bench.probe, workers) as server:
                named = [bench.texts[name] for name in ("short", "news", "paragraphs") if name in bench.texts]
                yield f"  {contestant.label}"
                yield from rows(waves(server, bench.generator, named, count))
                if "paragraphs" in bench.texts:
                    alone, beside = beside_flood(
                        server, bench.generator, bench.texts["short"], bench.texts["paragraphs"]
                    )
                    yield f"    single short requests alone: {alone}; beside {FLOOD_CLIENTS} paragraphs: {beside}"


def agreement(servers: Sequence[Server], workload: Workload, count: int = 100) -> list[int]:
    """For each server, the number of the first sentences that it translates as the first server does, one at a time."""
    bodies = workload.bodies.read_bytes().splitlines()[:count]
    texts = [[server.post(body)["translations"][0]["text"] for body in bodies] for server in servers]
    return [sum(text == first for text, first in zip(answers, texts[0], strict=True)) for answers in texts]


def report(served: Results, alone: Results) -> Iterator[str]:
    """The lines of the tables, and the share of the engine's throughput that remains over HTTP."""
    for workload, labels in served.items():
        engine = medians(alone[workload]["engine alone"][WHOLE])
        yield ""
        yield f"{workload} sentences"
        yield f"  the engine alone: {engine['requests']:,.0f} sentences/s, {engine['tokens']:,.0f} target tokens/s"
        for label, loads in labels.items():
            yield f"  {label}"
            yield " " * 20 + "".join(f"{title:>{width}}" for title, width, _, _ in COLUMNS)
            yield from (_row(load, medians(found)) for load, found in loads.items())
        yield from _comparison(labels, engine)


COLUMNS = (
    ("requests/s", 12, ",.0f", "requests"),
    ("tokens/s", 10, ",.0f", "tokens"),
    ("p50 ms", 10, ",.1f", "p50"),
    ("p95 ms", 10, ",.1f", "p95"),
    ("p99 ms", 10, ",.1f", "p99"),
    ("refused", 9, ".1%", "refused"),
    ("failed", 9, ".1%", "failed"),
)
"""Title, width, format and key."""


def _row(load: Load, found: Figures) -> str:
    return f"    {load!s:<16}" + "".join(f"{found[key]:>{width}{form}}" for _, width, form, key in COLUMNS)


def _comparison(labels: dict[str, dict[Load, list[Figures]]], alone: Figures) -> Iterator[str]:
    first, *rest = labels
    for load in (load for load in labels[first] if load.kind == "closed"):
        own = medians(labels[first][load])["tokens"]
        line = f"  at {load}, {first} has {own / alone['tokens']:.0%} of the engine's tokens/s"
        for label in rest:
            line += f"; {own / medians(labels[label][load])['tokens']:.2f} x {label.partition(' (')[0]}"
        yield line


def as_json(machine: Sequence[str], served: Results, alone: Results) -> dict[str, Any]:
    """The figures of every round, and the machine and versions."""
    both = {workload: {**alone[workload], **served[workload]} for workload in served}
    measured = {
        workload: {
            label: {("all at once" if not load.amount else str(load)): found for load, found in loads.items()}
            for label, loads in labels.items()
        }
        for workload, labels in both.items()
    }
    return {"machine": machine, "measured": measured}


def versions(names: Sequence[str]) -> str:
    return ", ".join([f"Python {platform.python_version()}", *(f"{name} {metadata.version(name)}" for name in names)])


def missing(names: Sequence[str]) -> list[str]:
    def lacks(name: str) -> bool:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return not metadata.version(name)
        return True

    return [name for name in names if lacks(name)]


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve.")] = ROOT / "bundles" / "en-fr",
    pairs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Sentence pairs (TSV). (default: random sentences)"),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Duration of a measurement, without its warm-up.")] = 3.0,
    count: Annotated[int, typer.Option("--rounds", help="Measurements of each; the medians are shown.")] = 3,
    short: Annotated[bool, typer.Option("--short", help="A minute or two: one round, fewer loads, no sweep.")] = False,
    peers: Annotated[bool, typer.Option(help="Measure the servers around CTranslate2 as well.")] = True,
    libretranslate_python: Annotated[
        Path | None,
        typer.Option(
            "--libretranslate", metavar="PYTHON", help="Of an environment with LibreTranslate: measure it, too."
        ),
    ] = None,
    only_waves: Annotated[bool, typer.Option("--only-waves", help="Measure waves, and nothing else.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every round's figures to FILE.")] = None,
) -> None:
    """Measure the service over HTTP: throughput, latency and refusals by load, against engine and peers."""
    if not compiler():
        typer.echo("the load generator needs a C compiler: install one, or set CC", err=True)
        raise typer.Exit(1)
    if short:
        seconds, count = min(seconds, 1.0), 1
    lacking = missing(["ctranslate2", "litserve"]) if peers else []
    if lacking:
        typer.echo(f"skipping the peers: {' and '.join(lacking)} not installed (pip install '.[bench]')")
    compared = peers and not lacking
    cores = Cores.found()
    machine = [
        f"{processor()}; servers on core {cores.server}, load from core {cores.load}",
        versions(["torch", "fastapi", "uvicorn", *(["ctranslate2", "litserve"] if compared else [])]),
    ]
    typer.echo("\n".join(machine))
    typer.echo(f"our cache of finished sentences: {CACHE}")
    if cores.server == cores.load:
        typer.echo("only one core: the load generator takes time from the servers")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generator = Generator(folder, cores.load, seconds, min(1.0, seconds))
        bench = Bench(bundle, cores, generator, workloads(bundle, pairs, folder), chosen_loads(short), typer.echo)
        for workload in bench.texts.values():
            typer.echo(f"{workload.name}: {len(workload.texts):,} texts of {workload.tokens:.1f} source tokens")
        contestants, compared = [ours()], compared and not only_waves
        patient = contestants[:]
        if compared or libretranslate_python:
            model = convert(bundle, folder / "ctranslate2")
        if compared:
            contestants += [locked(model), bench.best_batching(model, BATCHINGS[4:5] if short else BATCHINGS)]
        if libretranslate_python:
            asked = json.loads(bench.probe)
            pair = asked["source"], asked["target"]
            peer = [libretranslate(libretranslate_python, model, pair, size) for size in (1, 4)]
            contestants, patient = contestants + peer, patient + peer
        if not short:
            for line in measure_waves(bench, patient, count):
                typer.echo(line)
        if only_waves:
            return
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(bench.running(contestant)) for contestant in contestants]
            served, alone = rounds(bench, servers, count, check(bench, servers))
    for line in report(served, alone):
        typer.echo(line)
    if json_file:
        json_file.write_text(json.dumps(as_json(machine, served, alone), indent=1) + "\n", encoding="utf-8")


def chosen_loads(short: bool) -> list[Load]:
    clients, factors = ((1, 64), (0.8, 2.0)) if short else (CLIENTS, FACTORS)
    return [*(Load("closed", n) for n in clients), *(Load("open", factor) for factor in factors)]


def check(bench: Bench, servers: Sequence[Server]) -> str:
    """Reports how far the servers agree; returns the precision of our server."""
    precision: str = servers[0].get("/models")[0]["precision"]
    bench.say(f"{servers[0].contestant.label} serves in {precision}, the others in int8")
    for workload in bench.workloads:
        for server, same in zip(servers[1:], agreement(servers, workload)[1:], strict=True):
            bench.say(f"{server.contestant.label}: {same} of 100 {workload.name} sentences translated like ours")
    return precision


if __name__ == "__main__":
    typer.run(main)
