"""Does a service of several instances lose a request when one of them is killed, hangs, is updated or goes?

    python -m benchmarks.scale
    python -m benchmarks.scale --only "SIGKILL of an instance" --runs 1 --requests 2000

Starts two instances behind HAProxy, or two that share a port, and sends requests from clients that never pause, while
the instances suffer. Compares each answer with the one given alone. Exits with 1 if a request was lost, answered twice
or changed, or refused. `python -m benchmarks.scale_speed` measures the speed of the same set-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.balancer import Instance, balanced, children, wait_for
from benchmarks.cores import processor
from benchmarks.sentences import SENTENCES, workloads
from benchmarks.soak import Soak, request_sequentially
from model.bundle_files import SUMS, read_bundle
from model.bundle_weights import load_bundle, save_bundle

SETTINGS = {
    "DEVICE": "cpu",
    "DRAIN_MS": "5000",
    "MAX_WAIT_MS": "60000",
    "TRUSTED_PROXIES": "127.0.0.1",
    "WATCH_BUNDLES": "true",
}
"""The drain is that of docker-compose.yml. Nothing is refused because the machine is slow."""
NO_CACHE = ("CACHE_BYTES", "0")
"""For scenarios in which each answer should be decoded: with the cache, an instance decodes each sentence once."""
PAUSE_S = 0.1
"""Between requests of a client once there were enough of them, and what happens is not over."""
NOISE = 0.01
"""Standard deviation of an updated bundle's weights from those of the first, as a share of that of each tensor: enough
to change the score in every answer, and too little to change a sample."""
SERVER_TIMEOUT_S = 80.0
"""After which HAProxy gives up an instance that does not answer (deploy/balancer/haproxy.cfg)."""
HEALTHY_S = 3.0
"""How long the balancer may take to see that an instance is ready, and to send it a share of the requests."""
COLUMNS = ("runs", "answered", "refused", "lost", "twice", "changed", "longest ms")


@dataclass
class Group:
    """The instances, the folder of their bundles and the folder of the update, and the soak that is going on."""

    instances: list[Instance]
    bundles: Path
    update: Path

    async def wait_until_ready(self, *instances: Instance) -> None:
        for instance in instances or self.instances:
            await asyncio.to_thread(instance.wait_until_ready)
        await asyncio.sleep(HEALTHY_S)


# ---- What happens to two instances


async def kill_instances(group: Group) -> None:
    """SIGKILL of each, which is started again."""
    for instance in group.instances:
        await asyncio.to_thread(instance.end, signal.SIGKILL)
        instance.start()
        await group.wait_until_ready(instance)


async def kill_workers(group: Group) -> None:
    """SIGKILL of the worker of each, which the instance starts again."""
    for instance in group.instances:
        for worker in instance.children():
            os.kill(worker, signal.SIGKILL)
        await group.wait_until_ready(instance)


async def restart(group: Group) -> None:
    """SIGTERM of each, which is started again: a rolling update of the code."""
    for instance in group.instances:
        await asyncio.to_thread(instance.end)
        instance.start()
        await group.wait_until_ready(instance)


async def hang(group: Group) -> None:
    """SIGSTOP of one, until the balancer has repeated what was in it elsewhere; then it goes on."""
    os.kill(group.instances[0].process.pid, signal.SIGSTOP)
    await asyncio.sleep(SERVER_TIMEOUT_S + 5)
    os.kill(group.instances[0].process.pid, signal.SIGCONT)
    await group.wait_until_ready()


async def update_bundles(group: Group) -> None:
    """A bundle with other weights takes the place of the one that is served and watched, and later that one again."""
    for folder in group.update, group.bundles.with_name("first"):
        swap_in(folder, group.bundles)
        checksum = (folder / SUMS).read_text()
        for instance in group.instances:
            await asyncio.to_thread(wait_for, partial(instance.serves, checksum), "the bundle is not updated")


async def scale_in(group: Group) -> None:
    """SIGTERM of one, which does not come back until the end of the run."""
    await asyncio.to_thread(group.instances[1].end)


# ---- What happens to two instances on one port


async def kill_shared(group: Group) -> None:
    """SIGKILL of each instance, which the supervisor starts again."""
    [service] = group.instances
    for _ in range(2):
        killed = service.children()[0]  # the oldest
        os.kill(killed, signal.SIGKILL)
        await _until(partial(has_replaced, service, {killed}))
        await asyncio.to_thread(wait_for_workers, service)


async def restart_shared(group: Group) -> None:
    """SIGHUP, which replaces one instance after the other."""
    [service] = group.instances
    before = set(service.children())
    os.kill(service.process.pid, signal.SIGHUP)
    await _until(partial(has_replaced, service, before))
    await asyncio.to_thread(wait_for_workers, service)


async def hang_shared(group: Group) -> None:
    """SIGSTOP of an instance, which the supervisor kills and starts again."""
    [service] = group.instances
    stopped = service.children()[0]
    os.kill(stopped, signal.SIGSTOP)
    await _until(partial(has_replaced, service, {stopped}))
    await asyncio.to_thread(wait_for_workers, service)


def has_replaced(service: Instance, old: set[int]) -> bool:
    """Whether two instances share the port, and these are gone."""
    found = service.children()
    return len(found) == 2 and not old & set(found)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # of other processes
        await asyncio.sleep(0.1)


def wait_for_workers(service: Instance) -> None:
    """Waits until each instance on one port has a worker that runs."""
    while not all(children(instance) for instance in service.children()):
        time.sleep(0.1)
    service.wait_until_ready()
    time.sleep(HEALTHY_S)


@dataclass(frozen=True)
class Scenario:
    """What happens in each run, and the number of services: two of them, or one with two instances on its port."""

    name: str
    happens: Callable[[Group], Awaitable[None]]
    services: int = 2
    through_balancer: bool = True
    settings: tuple[tuple[str, str], ...] = ()
    may_lose: int = 0
    """How often in a run the requests that an instance holds may be lost."""


SCENARIOS = (
    Scenario("SIGKILL of an instance", kill_instances),
    Scenario("SIGKILL of a worker", kill_workers, settings=(NO_CACHE,)),
    Scenario("restart one by one", restart),
    Scenario("update of bundles", update_bundles),
    Scenario("SIGSTOP of an instance", hang),
    Scenario("scale-in", scale_in),
    Scenario("one port: SIGKILL", kill_shared, services=1),
    Scenario("one port: SIGHUP", restart_shared, services=1),
    Scenario("one port: SIGSTOP", hang_shared, services=1),
    Scenario("one port: update of bundles", update_bundles, services=1),
    Scenario("no balancer: SIGHUP", restart_shared, services=1, through_balancer=False),
    Scenario("no balancer: SIGKILL", kill_shared, services=1, through_balancer=False, may_lose=2),
)


# ---- Runs


@dataclass
class Traffic(Soak):
    """Clients that send without a pause, and accept any of several responses."""

    accepted: Sequence[set[bytes]] = ()

    async def run_during(self, requests: int, clients: int, happens: Awaitable[None]) -> None:
        """Sends requests from `clients` clients until there were `requests` and `happens` is over."""
        self.until = sys.maxsize
        sending = asyncio.gather(*(self._client(random.Random(number)) for number in range(clients)))
        while self.sent < requests / 10 and not sending.done():  # noqa: ASYNC110  # counted by the clients
            await asyncio.sleep(0.01)
        happening = asyncio.ensure_future(happens)
        try:
            while not happening.done():  # as above
                self.pause_s = PAUSE_S if self.sent >= requests else 0.0
                await asyncio.sleep(0.1)
            await happening
        finally:
            self.until = max(requests, self.sent)
            await sending

    def _record(self, number: int, status: int, body: bytes) -> None:
        self.outcomes.statuses[status] += 1
        self.outcomes.changed += status == 200 and body not in self.accepted[number]
        if status != 200:
            print(f"{status}: {body.decode(errors='replace')}", file=sys.stderr)


@dataclass
class Row:
    """The sum over the runs of a scenario."""

    runs: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    twice: int = 0
    changed: int = 0
    longest_ms: float = 0.0
    seconds: float = 0.0

    def add(self, run: Soak, seconds: float) -> None:
        outcomes = run.outcomes
        self.runs += 1
        self.answered += outcomes.statuses[200]
        self.refused += outcomes.statuses[503]
        self.lost += outcomes.lost + outcomes.answered - outcomes.statuses[200] - outcomes.statuses[503]
        self.twice += outcomes.twice
        self.changed += outcomes.changed
        self.longest_ms = max(self.longest_ms, 1e3 * outcomes.longest_s)
        self.seconds += seconds

    @property
    def wrong(self) -> int:
        return self.refused + self.lost + self.twice + self.changed


def swap_in(folder: Path, place: Path) -> None:
    """Puts a copy of the bundle `folder` in the place of the bundle in `place`, atomically."""
    new, old = place.with_name("new"), place.with_name("old")
    shutil.copytree(folder, new)
    (place / "bundle").rename(old)
    new.rename(place / "bundle")
    shutil.rmtree(old)


def updated_bundle(bundle: Path, folder: Path) -> None:
    """Writes a bundle like `bundle` with slightly different weights, whose answers have other scores."""
    loaded = load_bundle(bundle, torch.device("cpu"))
    with torch.no_grad():
        torch.manual_seed(1)
        for tensor in loaded.model.parameters():
            if tensor.ndim > 1:
                tensor.add_(NOISE * tensor.std() * torch.randn_like(tensor))
    record, _ = read_bundle(bundle)
    save_bundle(folder, loaded.model, loaded.source_tokenizer, loaded.limits, record, "An update, for a benchmark.\n")


def answers(bundles: Path, bodies: Sequence[bytes]) -> list[bytes]:
    """The answer to each request alone."""
    instance = Instance(bundles, {**SETTINGS, "WORKERS": "1", "DRAIN_MS": "0"})
    instance.start()
    try:
        instance.wait_until_ready()
        return asyncio.run(request_sequentially(instance.port, bodies))
    finally:
        instance.end()


def run_scenario(scenario: Scenario, runs: int, requests: int, clients: int, work: Work) -> Row:
    """Runs a scenario `runs` times, each with at least `requests` requests."""
    row = Row()
    settings = {**SETTINGS, **dict(scenario.settings), "WORKERS": "1" if scenario.services == 2 else "2"}
    if scenario.services == 1:
        settings["INSTANCES"] = "2"
    for _ in range(runs):
        with contextlib.ExitStack() as stack:
            bundles = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bundles"
            bundles.mkdir()
            shutil.copytree(work.bundle, bundles.with_name("first"))
            shutil.copytree(work.bundle, bundles / "bundle")
            instances = [Instance(bundles, settings) for _ in range(scenario.services)]
            for instance in instances:
                instance.start()
                stack.callback(instance.end, signal.SIGKILL)
            for instance in instances:
                instance.wait_until_ready()
            port = instances[0].port
            if scenario.through_balancer:
                balancer = stack.enter_context(balanced(bundles.parent, [each.port for each in instances]))
                balancer.wait_until_up(len(instances))
                port = balancer.port
            if scenario.services == 1:
                wait_for_workers(instances[0])
            traffic = Traffic(port, work.bodies, (), leaving=0.0, accepted=work.accepted)
            happens = scenario.happens(Group(instances, bundles, work.update))
            began = time.perf_counter()
            asyncio.run(traffic.run_during(requests, clients, happens))
            row.add(traffic, time.perf_counter() - began)
            print(f"{scenario.name}: {row}", file=sys.stderr, flush=True)
    return row


@dataclass(frozen=True)
class Work:
    """The bundle and its update, requests, and the responses to each that are right."""

    bundle: Path
    update: Path
    bodies: list[bytes]
    accepted: list[set[bytes]]


def prepare(bundle: Path, pairs: Sequence[Path] | None, folder: Path, count: int = SENTENCES) -> Work:
    """Asks for every answer alone, before and after the update of the bundle. `count`: of requests, at most."""
    bodies = workloads(bundle, pairs, folder)["short"].bodies.read_bytes().splitlines()[:count]
    updated_bundle(bundle, folder / "update" / "bundle")
    shutil.copytree(bundle, folder / "first" / "bundle")
    before, after = (answers(folder / name, bodies) for name in ("first", "update"))
    if any(map(bytes.__eq__, before, after)):
        raise RuntimeError("the update of the bundle leaves an answer as it was")
    return Work(bundle, folder / "update" / "bundle", bodies, [set(both) for both in zip(before, after, strict=True)])


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve.")] = Path("bundles/en-fr"),
    pairs: Annotated[list[Path] | None, typer.Option(help="Pairs whose sources to send; default: random ones.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="The scenarios to run; default: all.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each scenario.")] = 5,
    requests: Annotated[int, typer.Option(help="Requests of a run, at least.")] = 10_000,
    clients: Annotated[int, typer.Option(help="Concurrent connections.")] = 16,
) -> None:
    """Check that no request is lost, answered twice or changed while instances come and go."""
    chosen = [each for each in SCENARIOS if not only or each.name in only]
    if unknown := set(only or ()) - {each.name for each in SCENARIOS}:
        raise typer.BadParameter(f"no scenario {', '.join(unknown)}; there are {', '.join(s.name for s in SCENARIOS)}")
    print(f"{processor()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    print(f"at least {requests:,} requests a run, {clients} clients")
    with tempfile.TemporaryDirectory() as folder:
        work = prepare(bundle, pairs, Path(folder))
        width = max(len(each.name) for each in chosen)
        print(f"{'':{width}}" + "".join(f"  {column:>10}" for column in (*COLUMNS, "requests/s")), flush=True)
        wrong = 0
        for scenario in chosen:
            row = run_scenario(scenario, runs, requests, clients, work)
            figures = (row.runs, row.answered, row.refused, row.lost, row.twice, row.changed, row.longest_ms)
            rate = row.answered / row.seconds
            print(f"{scenario.name:{width}}" + "".join(f"  {n:>10,.0f}" for n in (*figures, rate)), flush=True)
            wrong += max(0, row.wrong - row.runs * scenario.may_lose * clients)
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
