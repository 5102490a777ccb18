"""Does the service lose a request on Ray Serve when a replica, a worker, a node or the controller is killed, when a
replica hangs, or when replicas are updated, added and removed?

    python -m benchmarks.scale_ray
    python -m benchmarks.scale_ray --only "SIGKILL of a node" --runs 1 --requests 2000

Like benchmarks.scale, on a cluster of Ray on this machine, in a network namespace, which needs root or user namespaces.
Compares each answer with the one given alone, without Ray. Exits with 1 if a request was lost, answered twice, changed
or refused.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.balancer import family
from benchmarks.cores import processor
from benchmarks.ray_cluster import (
    HANG_TIMEOUT_S,
    PORT,
    START_ATTEMPTS,
    RayService,
    by_load_on_shared_cores,
    isolate,
    kill_tree,
    processes,
    ray_service,
    raylet,
    replicas,
    until,
    workers,
)
from benchmarks.scale import COLUMNS, Row, Traffic, Work, prepare, swap_in

SETTINGS = {"cache_bytes": 0, "device": "cpu", "max_wait_ms": 30_000}
"""Without a cache, so that each answer is decoded, and without refusals, since a replica less is slower."""
AUTOSCALING = {
    "min_replicas": 1,
    "max_replicas": 3,
    "upscale_delay_s": 2.0,
    "downscale_delay_s": 10.0,
    "policy": {"policy_function": f"{by_load_on_shared_cores.__module__}:{by_load_on_shared_cores.__name__}"},
}
BUSY_CLIENTS = 256
"""How many it takes to saturate replicas: their load is that of full batches, which fewer clients do not fill."""
PAUSE_S = 0.2
"""Between two requests of the one client that is left while replicas are removed."""


@dataclass
class Cluster:
    """The service and the folders of its bundles."""

    service: RayService
    bundles: Path
    update: Path
    version: int = 1

    def deploy(self, replicas: int = 0, **options: Any) -> None:
        self.service.deploy(replicas, self.version, **options)


# ---- What happens to two replicas


def kill_replica(cluster: Cluster) -> None:
    """SIGKILL of one, in whose place Serve starts another."""
    before = replicas()
    os.kill(before[0], signal.SIGKILL)
    _until_replaced(cluster, before, 1)


def kill_worker(cluster: Cluster) -> None:
    """SIGKILL of the worker of one, which the replica starts again."""
    replica = replicas()[0]
    [killed] = workers(replica)
    os.kill(killed, signal.SIGKILL)
    until(lambda: bool(workers(replica)) and workers(replica) != [killed], "the worker was not started again")
    cluster.service.wait_until_running(2)


def kill_node(cluster: Cluster) -> None:
    """SIGKILL of all processes of a node that has a replica, in whose place another comes."""
    node = _node_with_one_replica(cluster)
    before = replicas()
    cluster.service.nodes.remove(node)
    kill_tree(raylet(node))
    cluster.service.nodes.append(cluster.service.add_node())
    _until_replaced(cluster, before, 1)
    cluster.service.cluster.remove_node(node, allow_graceful=False)


def _node_with_one_replica(cluster: Cluster) -> Any:
    """A node with one of the two replicas. Serve may have put both on one node: kills one of them then, which starts
    anew on any. Raises TimeoutError."""
    for _ in range(START_ATTEMPTS):
        for node in cluster.service.nodes:
            if len(set(family(raylet(node))) & set(replicas())) == 1:
                return node
        kill_replica(cluster)
    raise TimeoutError("both replicas stay on one node")


def kill_controller(cluster: Cluster) -> None:
    """SIGKILL of Serve's controller, which Ray starts again."""
    [before] = processes("ray::ServeController")
    os.kill(before, signal.SIGKILL)
    until(lambda: processes("ray::ServeController") not in ([], [before]), "the controller was not started again")
    cluster.service.wait_until_running(2)


def hang(cluster: Cluster) -> None:
    """SIGSTOP of one, until HAProxy has repeated what was in it; then it goes on."""
    stopped = replicas()[0]
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(HANG_TIMEOUT_S + 5)
    os.kill(stopped, signal.SIGCONT)
    cluster.service.wait_until_running(2)


def update_code(cluster: Cluster) -> None:
    """Another version of the application, whose replicas take the place of the old ones."""
    before = replicas()
    cluster.version += 1
    cluster.deploy(2)
    _until_replaced(cluster, before, 2)


def update_bundles(cluster: Cluster) -> None:
    """A bundle with other weights, which each replica loads, and then the first one again."""
    for number, folder in enumerate((cluster.update, cluster.bundles.with_name("first"))):
        swap_in(folder, cluster.bundles)
        cluster.deploy(2, user_config={"bundles": f"{time.time()} {number}"})


def scale_in(cluster: Cluster) -> None:
    """One replica less, and later one more."""
    cluster.deploy(1)
    until(lambda: len(replicas()) == 1, "no replica goes")
    cluster.deploy(2)


def autoscale_out(cluster: Cluster) -> None:
    """From one replica to three, since the clients do not pause."""
    until(lambda: cluster.service.running() == 3, "replicas are not added")


def autoscale_in(cluster: Cluster) -> None:
    """Back to one, since one client is left, which pauses."""
    until(lambda: cluster.service.running() == 1 and len(replicas()) == 1, "replicas are not removed")


def _until_replaced(cluster: Cluster, before: list[int], count: int) -> None:
    """Waits until at least `count` of the replicas `before` have gone, and as many run as before."""
    until(lambda: len(set(before) - set(replicas())) >= count, "the replica is still there")
    # The controller counts a killed replica among those that run until it has noticed.
    until(lambda: len(replicas()) == len(before), "no other replica is started")
    cluster.service.wait_until_running(len(before))


@dataclass(frozen=True)
class Scenario:
    """What happens in a run, one after the other, each to traffic of its own."""

    name: str
    happens: tuple[Callable[[Cluster], None], ...]
    replicas: int = 2
    autoscales: bool = False
    body_delay_s: float = 0.0
    """As some clients do, such as httpx."""


SCENARIOS = (
    Scenario("SIGKILL of a replica", (kill_replica,)),
    Scenario("SIGKILL of a replica, heads and bodies apart", (kill_replica,), body_delay_s=0.002),
    Scenario("SIGKILL of the only replica", (kill_replica,), replicas=1),
    Scenario("SIGKILL of a worker", (kill_worker,)),
    Scenario("SIGKILL of a node", (kill_node,)),
    Scenario("SIGKILL of the controller", (kill_controller,)),
    Scenario("SIGSTOP of a replica", (hang,)),
    Scenario("update of code", (update_code,)),
    Scenario("update of bundles", (update_bundles,)),
    Scenario("scale-in and out", (scale_in,)),
    Scenario("autoscaling 1 to 3 to 1", (autoscale_out, autoscale_in), autoscales=True),
)


# ---- Runs


class BusyTraffic(Traffic):
    """Clients that do not pause however long it takes, so that the load stays high."""

    async def run_during(self, requests: int, clients: int, happens: Awaitable[None]) -> None:
        event = asyncio.ensure_future(happens)
        while not event.done() or self.sent < requests:
            await self.run(clients * 10, clients)
        await event


class GentleTraffic(Traffic):
    """One client that pauses between requests, so that the load is low."""

    async def run_during(self, requests: int, clients: int, happens: Awaitable[None]) -> None:
        event = asyncio.ensure_future(happens)
        while not event.done() or self.sent < requests:
            await self.run(1, 1)
            await asyncio.sleep(PAUSE_S)
        await event


TRAFFIC: dict[Callable[[Cluster], None], type[Traffic]] = {autoscale_out: BusyTraffic, autoscale_in: GentleTraffic}


def run_scenario(scenario: Scenario, cluster: Cluster, requests: int, clients: int, work: Work) -> list[Row]:
    """Runs a scenario once, with `requests` requests. Returns the outcome of each part. Raises TimeoutError."""
    rows = []
    if scenario.autoscales:
        cluster.deploy(autoscaling_config=AUTOSCALING)
        cluster.service.wait_until_running(1)
    else:
        cluster.deploy(scenario.replicas)
    for happens in scenario.happens:
        kind = TRAFFIC.get(happens, Traffic)
        traffic = kind(PORT, work.bodies, (), leaving=0.0, accepted=work.accepted)
        traffic.body_delay_s = scenario.body_delay_s
        sending = max(clients, BUSY_CLIENTS) if kind is BusyTraffic else clients
        began = time.perf_counter()
        _run_during(traffic, 1 if kind is GentleTraffic else requests, sending, partial(happens, cluster))
        rows.append(Row())
        rows[-1].add(traffic, time.perf_counter() - began)
        print(f"{happens.__name__}: {traffic.outcomes}", file=sys.stderr, flush=True)
    return rows


def _add(total: Row, row: Row) -> None:
    """Adds the requests of a part of a run."""
    for name in ("answered", "refused", "lost", "twice", "changed", "seconds"):
        setattr(total, name, getattr(total, name) + getattr(row, name))
    total.longest_ms = max(total.longest_ms, row.longest_ms)


def _run_during(traffic: Traffic, requests: int, clients: int, happens: Callable[[], None]) -> None:
    """Sends requests in a thread while `happens` runs in this one, since Ray adds nodes in the main thread alone."""
    begun, done = threading.Event(), threading.Event()

    async def is_done() -> None:
        begun.set()
        await asyncio.to_thread(done.wait)

    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(lambda: asyncio.run(traffic.run_during(requests, clients, is_done())))
        sending.add_done_callback(lambda _: begun.set())
        begun.wait()
        try:
            happens()
        finally:
            done.set()
        sending.result()


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve.")] = Path("bundles/en-fr"),
    pairs: Annotated[list[Path] | None, typer.Option(help="Pairs whose sources to send; default: random ones.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="The scenarios to run; default: all.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each scenario.")] = 5,
    requests: Annotated[int, typer.Option(help="Requests of a run, at least.")] = 10_000,
    clients: Annotated[int, typer.Option(help="Concurrent connections.")] = 16,
) -> None:
    """Check that Ray Serve loses, doubles and changes no request while replicas come and go."""
    chosen = [each for each in SCENARIOS if not only or each.name in only]
    if unknown := set(only or ()) - {each.name for each in SCENARIOS}:
        raise typer.BadParameter(f"no scenario {', '.join(unknown)}; there are {', '.join(s.name for s in SCENARIOS)}")
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}; Ray Serve", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        work = prepare(bundle, pairs, Path(folder))
        bundles = Path(folder) / "ray" / "bundles"
        shutil.copytree(work.bundle, bundles.with_name("first"))
        shutil.copytree(work.bundle, bundles / "bundle")
        with ray_service(bundles, SETTINGS) as service:
            wrong = _run(chosen, Cluster(service, bundles, work.update), runs, requests, clients, work)
    raise typer.Exit(1 if wrong else 0)


def _run(chosen: list[Scenario], cluster: Cluster, runs: int, requests: int, clients: int, work: Work) -> int:
    """Runs all scenarios `runs` times, in turn, and prints a line for each run, and at the end one for each scenario.
    Returns the number of requests with a wrong outcome."""
    width = max(len(each.name) for each in chosen)
    sums: dict[str, Row] = {}

    def show(name: str, row: Row) -> None:
        figures = (row.runs, row.answered, row.refused, row.lost, row.twice, row.changed, row.longest_ms)
        rate = row.answered / row.seconds
        print(f"{name:{width}}" + "".join(f"  {n:>10,.0f}" for n in (*figures, rate)), flush=True)

    print(f"{'':{width}}" + "".join(f"  {column:>10}" for column in (*COLUMNS, "requests/s")), flush=True)
    failures = 0
    for _ in range(runs):
        for scenario in chosen:
            total = sums.setdefault(scenario.name, Row())
            try:
                rows = run_scenario(scenario, cluster, requests, clients, work)
            except TimeoutError as error:
                print(f"{scenario.name}: {error}", flush=True)
                failures += 1
                continue
            total.runs += 1
            for row in rows:
                _add(total, row)
            show(scenario.name, total)
    print("all runs", flush=True)
    for name, row in sums.items():
        if row.runs:
            show(name, row)
    return failures + sum(row.wrong for row in sums.values())


if __name__ == "__main__":
    isolate("benchmarks.scale_ray", sys.argv[1:])
    typer.run(main)
