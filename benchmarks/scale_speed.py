"""The speed of two instances against that of one, and the cost of HAProxy.

    python -m benchmarks.scale_speed --pairs my.tsv

Takes two cores. The load generator and HAProxy need processor time too, which two instances on two cores have to share
with them: so what counts is the processor time that instances spend on a request. Cores that had nothing else to do
would give as many requests as these times fit into them.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.balancer import Instance, balanced
from benchmarks.cores import processor
from benchmarks.load import Generator, Load, figures
from benchmarks.sentences import workloads

SETTINGS = {"DEVICE": "cpu", "CACHE_BYTES": "0", "WORKERS": "1", "TRUSTED_PROXIES": "127.0.0.1"}


@dataclass(frozen=True)
class SetUp:
    """Services with the cores of each, None for both cores, and whether HAProxy is in front."""

    name: str
    cores: tuple[int | None, ...]
    through_balancer: bool
    settings: tuple[tuple[str, str], ...] = ()


SET_UPS = (
    SetUp("one", (0,), False),
    SetUp("one, HAProxy", (0,), True),
    SetUp("two, HAProxy", (0, 1), True),
    SetUp("two on one port", (None,), False, (("INSTANCES", "2"), ("WORKERS", "2"))),
)


@dataclass(frozen=True)
class Speed:
    """Requests a second, and microseconds of processor a request: of the instances, HAProxy and the generator."""

    rate: float
    instances_us: float
    balancer_us: float
    generator_us: float
    failed: float
    """Share of requests."""


@contextlib.contextmanager
def running(set_up: SetUp, bundle: Path, folder: Path) -> Iterator[Callable[[Generator, Path, int], Speed]]:
    """Starts the services; yields what measures them under load from so many clients."""
    with contextlib.ExitStack() as stack:
        services = [Instance(bundle, {**SETTINGS, **dict(set_up.settings)}, core) for core in set_up.cores]
        for service in services:
            service.start()
            stack.callback(service.end)
        for service in services:
            service.wait_until_ready()
        balancer = None
        if set_up.through_balancer:
            folder.mkdir(exist_ok=True)
            balancer = stack.enter_context(balanced(folder, [service.port for service in services]))
            balancer.wait_until_up(len(services))
        port = balancer.port if balancer else services[0].port

        def measure(generator: Generator, bodies: Path, clients: int) -> Speed:
            def spent() -> tuple[float, float, float, int]:
                own = resource.getrusage(resource.RUSAGE_CHILDREN)
                return (
                    sum(service.processor_s() for service in services),
                    balancer.processor_s() if balancer else 0.0,
                    own.ru_utime + own.ru_stime,
                    sum(answered(service.port) for service in services),
                )

            before = spent()
            found = figures(generator.run(port, bodies, Load("closed", clients)))
            ours, theirs, load, requests = (now - then for now, then in zip(spent(), before, strict=True))
            us = 1e6 / requests
            return Speed(found["requests"], ours * us, theirs * us, load * us, found["failed"])

        yield measure


def answered(port: int) -> int:
    """Translations that the service has answered, in all its instances."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        found = re.findall(
            r'^interlinear_requests_total{.*route="/translate".*} (\S+)$', response.read().decode(), re.M
        )
    return int(sum(map(float, found)))


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve.")] = Path("bundles/en-fr"),
    pairs: Annotated[list[Path] | None, typer.Option(help="Pairs whose sources to send; default: random ones.")] = None,
    workload: Annotated[str, typer.Option(help="short or mixed")] = "short",
    rounds: Annotated[int, typer.Option(help="Rounds, in each of which every set-up has its turn.")] = 3,
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement.")] = 5.0,
    clients: Annotated[int, typer.Option(help="Concurrent connections.")] = 64,
) -> None:
    """Measure one and two instances, with HAProxy and without."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise typer.BadParameter("two cores are needed")
    print(f"{processor()}, load {os.getloadavg()[0]:.1f}; {clients} clients, {rounds} rounds of {seconds:.0f} s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generator = Generator(folder, None, seconds, warmup=1.0)
        sentences = workloads(bundle, pairs, folder)[workload]
        found: dict[str, list[Speed]] = {set_up.name: [] for set_up in SET_UPS}
        for number in range(rounds):
            for set_up in SET_UPS[:: -1 if number % 2 else 1]:
                with running(set_up, bundle, folder / "balancer") as measure:
                    found[set_up.name].append(measure(generator, sentences.bodies, clients))
        print("\n".join(report(workload, found)))


def report(workload: str, found: dict[str, list[Speed]]) -> Iterator[str]:
    """The lines of a table of medians, and what follows from them."""
    titles = f"{'requests/s':>19}{'instances us':>14}{'HAProxy us':>12}{'generator us':>14}{'failed':>8}"
    yield f"{workload} sentences{titles}"
    medians = {}
    for name, speeds in found.items():
        rate, ours, theirs, load, failed = (
            statistics.median(getattr(speed, field) for speed in speeds) for field in Speed.__dataclass_fields__
        )
        medians[name] = ours
        yield f"  {name:<26}{rate:10,.0f}{ours:14,.0f}{theirs:12,.0f}{load:14,.0f}{failed:8.1%}"
    for name in "two, HAProxy", "two on one port":
        rate = statistics.median(two.rate / one.rate for one, two in zip(found["one"], found[name], strict=True))
        yield f"  {name}, against one: {rate:.2f}; by processor time {2 * medians['one'] / medians[name]:.2f}"


if __name__ == "__main__":
    typer.run(main)
