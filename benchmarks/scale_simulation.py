"""What 10, 100 and 1,000 instances behind HAProxy would do, by simulation with service times measured here.

    python -m benchmarks.scale_simulation --pairs my.tsv

Measures how much processor time a request takes of the front process, the worker and HAProxy, from one client and from
64; simulates two instances with these times; and prints the simulation beside two real instances under other loads.
Then simulates many instances of four cores, and computes what else is used up by them. Takes two cores.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.balancer import Instance as Service
from benchmarks.balancer import balanced, processor_s
from benchmarks.cores import Cores, processor
from benchmarks.load import Figures, Generator, Load, figures
from benchmarks.queueing import POLICIES, Balancer, Instance, Machine, Request, Simulation, Times
from benchmarks.scale_speed import SETTINGS, answered
from benchmarks.sentences import Workload, workloads
from benchmarks.table import Table

ROWS = 32
"""Rows of a worker's batch (`app.engine.worker.ROWS_INT8`)."""
CALIBRATION = Load("closed", 1), Load("closed", 64)
CHECKS = Load("closed", 4), Load("closed", 16), Load("closed", 128), Load("open", 0.5), Load("open", 0.8)
WORKERS, CORES = 3, 4.0
"""Of an instance as deploy/kubernetes has it."""
LOAD = 0.8
"""Arrivals, as a share of what the instances can do."""
DOCUMENTS, DOCUMENT_LENGTH = 0.01, 30.0
"""Share of requests that are long, and how many mean sentences such a one has."""
REQUESTS_EACH = 30
"""Requests for each instance, at least: it has a dozen at a time."""
CHECK_INTERVAL_S = 1.0
"""Of HAProxy's health checks (deploy/balancer/haproxy.cfg)."""
LOG_BYTES = 130
STORE_OPERATIONS = 120_000
"""A second, of one core of Valkey (docs/scale.md)."""


class Pair:
    """Two services on one core, and HAProxy on the core of the load generator."""

    def __init__(self, services: Sequence[Service], balancer: int, port: int, generator: Generator) -> None:
        self._services, self._balancer, self._port, self._generator = services, balancer, port, generator

    def measure(self, workload: Workload, load: Load, capacity: float = 1.0) -> tuple[Figures, list[float]]:
        """Figures, and processor seconds a request: of the front processes, the workers and HAProxy."""

        def spent() -> list[float]:
            return [
                sum(answered(service.port) for service in self._services),
                sum(processor_s(service.process.pid) for service in self._services),
                sum(processor_s(worker) for service in self._services for worker in service.children()),
                processor_s(self._balancer),
            ]

        before = spent()
        found = figures(self._generator.run(self._port, workload.bodies, load, capacity))
        requests, *seconds = (now - then for now, then in zip(spent(), before, strict=True))
        return found, [each / requests for each in seconds]


def times_of(alone: Sequence[float], together: Sequence[float], rows: float) -> Times:
    """The model's times, from the processor seconds of a request from one client and from many that fill `rows` rows of
    each batch."""
    step = max(0.0, (alone[1] - together[1]) / (1 - 1 / rows))
    return Times(front=together[0], step=step, row=alone[1] - step, balancer=together[2])


def simulate_pair(times: Times, workload: Workload, load: Load, capacity: float, seconds: float) -> Figures:
    """Two instances on one core, as `Pair` has them; requests are as long as the workload's."""
    simulation = Simulation()
    machine = Machine(simulation, 1)
    instances = [Instance(simulation, times, 1, 1, ROWS, machine) for _ in range(2)]
    balancer = Balancer(simulation, times, instances, 1, "leastconn", seed=1)
    draw = random.Random(1)
    lengths = [len(text) for text in workload.texts]
    mean = statistics.mean(lengths)
    latencies: list[float] = []

    def send() -> None:
        began = simulation.now

        def done(now: float) -> None:
            latencies.append(now - began)
            if load.kind == "closed":
                simulation.at(now, send)

        balancer.add(Request(draw.choice(lengths) / mean, done))
        if load.kind == "open":
            simulation.at(began + draw.expovariate(load.amount * capacity), send)

    for _ in range(round(load.amount) if load.kind == "closed" else 1):
        simulation.at(0.0, send)
    simulation.run(lambda: simulation.now > seconds)
    return summary(latencies, seconds)


def summary(latencies: Sequence[float], seconds: float) -> Figures:
    """Of the later nine tenths."""
    kept = sorted(latencies[len(latencies) // 10 :])
    cuts = statistics.quantiles(kept, n=100)
    return {"requests": len(latencies) / seconds, "p50": 1e3 * cuts[49], "p99": 1e3 * cuts[98]}


def simulate_many(times: Times, count: int, policy: str, balancers: int, requests: int) -> Figures:
    """`count` instances of four cores, at `LOAD`, behind balancers that know nothing of each other."""
    simulation = Simulation()
    instances = [Instance(simulation, times, WORKERS, CORES, ROWS) for _ in range(count)]
    threads = max(1, -(-round(1.5e6 * count * ceiling(times) * times.balancer) // 1_000_000 // balancers))
    fronts = [Balancer(simulation, times, instances, threads, policy, seed) for seed in range(balancers)]
    draw = random.Random(1)
    mean = 1 - DOCUMENTS + DOCUMENTS * DOCUMENT_LENGTH
    rate = LOAD * count * ceiling(times, mean)
    latencies: list[float] = []
    sent = 0

    def send() -> None:
        nonlocal sent
        sent += 1
        began = simulation.now
        length = DOCUMENT_LENGTH if draw.random() < DOCUMENTS else draw.uniform(0.5, 1.5)
        draw.choice(fronts).add(Request(length, lambda now: latencies.append(now - began)))
        simulation.at(began + draw.expovariate(rate), send)

    simulation.at(0.0, send)
    simulation.run(lambda: sent >= max(requests, REQUESTS_EACH * count))
    return summary(latencies, simulation.now)


def ceiling(times: Times, length: float = 1.0) -> float:
    """Requests a second that an instance can do: the front's, or the workers' with full batches."""
    return min(1 / times.front, WORKERS / (times.per_request(ROWS) * length))


def arithmetic(times: Times, counts: Sequence[int]) -> Table:
    """What many instances use up, at the rate that they can do."""
    each = ceiling(times)
    rows = {
        "requests/s": [count * each for count in counts],
        "cores of HAProxy": [count * each * times.balancer for count in counts],
        "Valkey cores, a rate checked for each": [count * each / STORE_OPERATIONS for count in counts],
        "log, MB/s": [count * each * LOG_BYTES / 1e6 for count in counts],
        "health checks/s at an instance": [
            max(2.0, count * each * times.balancer / 4) / CHECK_INTERVAL_S for count in counts
        ],
    }
    columns = [f"{count:,} instances" for count in counts]
    note = "at the rate that instances can do; balancers of four cores, at least two"
    return Table("What they use up", columns, {name: list(row) for name, row in rows.items()}, note)


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve.")] = Path("bundles/en-fr"),
    pairs: Annotated[list[Path] | None, typer.Option(help="Pairs whose sources to send; default: random ones.")] = None,
    workload: Annotated[str, typer.Option(help="short or mixed")] = "mixed",
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement.")] = 5.0,
    times: Annotated[
        tuple[float, float, float, float],
        typer.Option(help="Microseconds of front, step, row and HAProxy; zeros: measure them, and check the model."),
    ] = (0, 0, 0, 0),
    requests: Annotated[int, typer.Option(help="Requests of each simulation, at least; 0: simulate none.")] = 20_000,
) -> None:
    """Measure service times, check the model with two instances, and simulate many."""
    print(f"{processor()}, load {os.getloadavg()[0]:.1f}")
    given = Times(*(each / 1e6 for each in times))
    found = given if any(times) else measure(bundle, pairs, workload, seconds)
    if requests:
        print("\n".join(forecast(found, requests).lines()))
        print("\n".join(arithmetic(found, (10, 100, 1_000)).lines()))


def measure(bundle: Path, pairs: Sequence[Path] | None, workload: str, seconds: float) -> Times:
    """Starts two services on one core and HAProxy on another, and checks the model with them."""
    cores = Cores.found()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sentences = workloads(bundle, pairs, folder)[workload]
        generator = Generator(folder, cores.load, seconds, warmup=1.0)
        services = [Service(bundle, SETTINGS, cores.server) for _ in range(2)]
        try:
            for service in services:
                service.start()
            for service in services:
                service.wait_until_ready()
            with balanced(folder, [service.port for service in services], cores.load) as balancer:
                balancer.wait_until_up(len(services))
                return check(Pair(services, balancer.process.pid, balancer.port, generator), sentences, seconds)
        finally:
            for service in services:
                service.end()


def check(pair: Pair, workload: Workload, seconds: float) -> Times:
    """Measures the times, and prints figures of the two instances beside those of the model."""
    (_, alone), (full, together) = (pair.measure(workload, load) for load in CALIBRATION)
    times = times_of(alone, together, CALIBRATION[1].amount / 2)
    print(
        f"{workload.name} sentences, processor us a request: front {1e6 * times.front:.0f}, worker "
        f"{1e6 * alone[1]:.0f} alone and {1e6 * together[1]:.0f} together, HAProxy {1e6 * times.balancer:.0f}; "
        f"--times {' '.join(f'{1e6 * each:.0f}' for each in astuple(times))}"
    )
    table = Table("Two instances on one core", ("requests/s", "model", "p50 ms", "model", "p99 ms", "model"))
    for load in (*CALIBRATION, *CHECKS):
        measured, _ = pair.measure(workload, load, full["requests"])
        model = simulate_pair(times, workload, load, full["requests"], seconds)
        table.rows[str(load)] = [each[name] for name in ("requests", "p50", "p99") for each in (measured, model)]
    print("\n".join(table.lines()), flush=True)
    return times


def forecast(times: Times, requests: int) -> Table:
    """Many instances, by policy."""
    table = Table("Simulated", ("requests/s", "p50 ms", "p99 ms"), note=f"{DOCUMENTS:.0%} long requests, load {LOAD}")
    for count in 10, 100, 1_000:
        for policy in POLICIES:
            found = simulate_many(times, count, policy, 1, requests)
            table.rows[f"{count:,} instances, {policy}"] = [found[name] for name in ("requests", "p50", "p99")]
        found = simulate_many(times, count, "leastconn", 10, requests)
        table.rows[f"{count:,} instances, leastconn, 10 balancers"] = [found[n] for n in ("requests", "p50", "p99")]
    return table


if __name__ == "__main__":
    typer.run(main)
