"""The speed of a replica of Ray Serve against that of `python -m app serve`, on the cores that this process may use.

    python -m benchmarks.scale_ray_speed --pairs my.tsv

The two have their turns in each round, in a network namespace, as in benchmarks.scale_ray. On a busy machine requests
a second say little; the processor time of a request says how many of them a core can do. Ray's other processes and the
load generator need processor time, too: the table has them apart.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.balancer import Instance, family, processor_s
from benchmarks.cores import processor
from benchmarks.load import Generator, Load, figures
from benchmarks.ray_cluster import PORT, isolate, processes, ray_service, replicas
from benchmarks.sentences import Workload, workloads

RAY, PLAIN = "replica of Ray Serve", "app serve"
SETTINGS = {"cache_bytes": "0", "device": "cpu", "workers": "1", "max_wait_ms": "60000"}
"""Without a cache and without refusals, so that each request is decoded."""


@dataclass(frozen=True)
class Speed:
    """One measurement of either."""

    rate: float
    p50_ms: float
    service_us: float
    """Processor time of the front and its worker for a request; the others likewise."""
    haproxy_us: float
    ray_us: float
    """All other processes of Ray."""
    generator_us: float
    failed: float

    @property
    def all_us(self) -> float:
        """What a request costs, without who sends it."""
        return self.service_us + self.haproxy_us + self.ray_us


def measure(
    generator: Generator,
    port: int,
    bodies: Path,
    clients: int,
    services: Callable[[], list[int]],
    others: Callable[[], list[int]],
) -> Speed:
    """Runs a load. `services`: the process ids of the front and its workers; `others`: those of what is not asked."""
    is_ray = port == PORT

    def spent() -> tuple[float, ...]:
        serving = services()
        haproxy = _haproxies() if is_ray else []
        rest = set(processes("")) - {*serving, *haproxy, *others(), os.getpid()} if is_ray else set[int]()
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        groups = [sum(map(processor_s, set(group))) for group in (serving, haproxy, rest)]
        return (*groups, own.ru_utime + own.ru_stime, answered(port))

    before = spent()
    printed = generator.run(port, bodies, Load("closed", clients))
    *seconds, requests = (now - then for now, then in zip(spent(), before, strict=True))
    found = figures(printed)
    serving, haproxy, rest, load = (1e6 * each / requests for each in seconds)
    return Speed(found["requests"], found["p50"], serving, haproxy, rest, load, found["failed"])


def answered(port: int) -> float:
    """Translations that the service behind `port` has answered."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    return sum(map(float, re.findall(r'^interlinear_requests_total{.*route="/translate".*} (\S+)$', text, re.M)))


def _haproxies() -> list[int]:
    """The processes of Ray's HAProxy, whose binary is in a package."""
    return [process for process in processes("") if _program(process).startswith("haproxy")]


def _program(process: int) -> str:
    try:
        return Path(f"/proc/{process}/exe").resolve().name
    except OSError:
        return ""


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve.")] = Path("bundles/en-fr"),
    pairs: Annotated[list[Path] | None, typer.Option(help="Pairs whose sources to send; default: random ones.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds, in each of which both have their turn.")] = 5,
    seconds: Annotated[float, typer.Option(help="Seconds of each measurement.")] = 5.0,
    clients: Annotated[int, typer.Option(help="Concurrent connections.")] = 64,
) -> None:
    """Compare a replica of Ray Serve with the service alone."""
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; {clients} clients")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(bundle, folder / "bundles" / "bundle")
        generator = Generator(folder, None, seconds, warmup=1.0)
        plain = Instance(folder / "bundles", {name.upper(): value for name, value in SETTINGS.items()})
        plain.start()
        try:
            plain.wait_until_ready()
            with ray_service(folder / "bundles", SETTINGS) as service:
                service.deploy(1)
                subjects = {
                    PLAIN: (plain.port, lambda: family(plain.process.pid)),
                    RAY: (PORT, lambda: [member for replica in replicas() for member in family(replica)]),
                }
                texts = workloads(bundle, pairs, folder)
                for workload in (texts["short"], texts["mixed"]):
                    for number in (1, clients):
                        found: dict[str, list[Speed]] = {name: [] for name in subjects}
                        for turn in range(rounds):
                            for subject in list(subjects)[:: -1 if turn % 2 else 1]:
                                port, services = subjects[subject]
                                plainly = subjects[PLAIN][1]
                                found[subject].append(
                                    measure(generator, port, workload.bodies, number, services, plainly)
                                )
                        print("\n".join(report(workload, number, found)), flush=True)
        finally:
            plain.end()


def report(workload: Workload, clients: int, found: Mapping[str, Sequence[Speed]]) -> Iterator[str]:
    """The lines of a table of medians, and the ratios."""
    titles = ("requests/s", "p50 ms", "service us", "HAProxy us", "Ray us", "generator us")
    yield f"{workload.name}, {clients} clients".ljust(24) + "".join(f"{title:>14}" for title in titles)
    for name, speeds in found.items():
        fields = ("rate", "p50_ms", "service_us", "haproxy_us", "ray_us", "generator_us")
        medians = [statistics.median(getattr(speed, field) for speed in speeds) for field in fields]
        yield f"  {name:<22}" + "".join(f"{median:14,.1f}" for median in medians)
    pairs = list(zip(found[RAY], found[PLAIN], strict=True))
    rates = [ray.rate / plain.rate for ray, plain in pairs]
    costs = [(plain.all_us + plain.generator_us) / (ray.all_us + ray.generator_us) for ray, plain in pairs]
    yield (
        f"  Ray against plain: {statistics.median(rates):.2f} ({min(rates):.2f} to {max(rates):.2f}); by processor "
        f"time {statistics.median(costs):.2f} ({min(costs):.2f} to {max(costs):.2f})"
    )


if __name__ == "__main__":
    isolate("benchmarks.scale_ray_speed", sys.argv[1:])
    typer.run(main)
