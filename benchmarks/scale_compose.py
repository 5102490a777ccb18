"""Do the containers of docker-compose.scale.yml lose a request when one is killed, paused, restarted or removed?

    docker compose -f docker-compose.yml -f docker-compose.scale.yml up -d --build --scale cpu=3
    python -m benchmarks.scale_compose

Sends requests to the published port from clients that never pause, as `benchmarks.scale` does without containers, and
compares each answer with the one given before. Exits with 1 if a request was lost, refused, answered twice or changed.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from benchmarks.balancer import is_ready, wait_for
from benchmarks.scale import COLUMNS, Row, Traffic
from benchmarks.sentences import random_sentences, request
from benchmarks.soak import request_sequentially

COMPOSE = "docker compose -f docker-compose.yml -f docker-compose.scale.yml"
REQUESTS_S = 15.0
"""How long requests go on after a container has been started: until the balancer finds it, and it gets a share."""


@dataclass(frozen=True)
class Containers:
    """The service `cpu` of a compose project that runs `count` containers of it."""

    compose: list[str]
    port: int
    count: int

    def names(self) -> list[str]:
        output = self._run([*self.compose, "ps", "--format", "json", "cpu"])
        found = json.loads(output) if output.startswith("[") else [json.loads(line) for line in output.splitlines()]
        return sorted(container["Name"] for container in found)

    async def docker(self, *words: str) -> None:
        await asyncio.to_thread(self._run, [self.compose[0], *words])

    async def scale(self, count: int) -> None:
        words = ["up", "-d", "--no-build", "--no-recreate", "--scale", f"cpu={count}"]
        await asyncio.to_thread(self._run, [*self.compose, *words])
        await asyncio.sleep(REQUESTS_S)

    def _run(self, words: list[str]) -> str:
        return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


async def kill(containers: Containers) -> None:
    """SIGKILL of one, which is started again."""
    await containers.docker("kill", containers.names()[0])
    await asyncio.sleep(2)
    await containers.scale(containers.count)


async def pause(containers: Containers) -> None:
    """One hangs, and goes on."""
    name = containers.names()[0]
    await containers.docker("pause", name)
    await asyncio.sleep(15)
    await containers.docker("unpause", name)
    await asyncio.sleep(REQUESTS_S)


async def restart(containers: Containers) -> None:
    """SIGTERM of one after the other, which is started again."""
    for name in containers.names():
        await containers.docker("restart", name)
        await asyncio.sleep(REQUESTS_S)


async def scale(containers: Containers) -> None:
    """One container fewer, and again as many."""
    await containers.scale(containers.count - 1)
    await containers.scale(containers.count)


SCENARIOS: dict[str, Callable[[Containers], Awaitable[None]]] = {
    "SIGKILL of a container": kill,
    "pause of a container": pause,
    "restart one by one": restart,
    "scale-in and out": scale,
}


def main(
    compose: Annotated[str, typer.Option(help="The command for the project that runs.")] = COMPOSE,
    port: Annotated[int, typer.Option(help="The published port.")] = 8000,
    only: Annotated[list[str] | None, typer.Option(help="The scenarios to run; default: all.")] = None,
    runs: Annotated[int, typer.Option(help="Runs of each scenario.")] = 1,
    requests: Annotated[int, typer.Option(help="Requests of a run, at least.")] = 10_000,
    clients: Annotated[int, typer.Option(help="Concurrent connections.")] = 16,
    sentences: Annotated[int, typer.Option(help="Number of different sentences.")] = 1_000,
) -> None:
    """Check that no request is lost, answered twice or changed while containers come and go."""
    containers = Containers(shlex.split(compose), port, 0)
    containers = Containers(containers.compose, port, len(containers.names()))
    wait_for(lambda: is_ready(port), "the service is not ready")
    bodies = [request(text, "en", "fr").encode() for text in random_sentences(sentences)]
    alone = asyncio.run(request_sequentially(port, bodies))
    print(f"{containers.count} containers, {clients} clients")
    print(f"{'':24}" + "".join(f"  {column:>10}" for column in COLUMNS))
    wrong = 0
    for name, happens in SCENARIOS.items():
        if only and name not in only:
            continue
        row = Row()
        for _ in range(runs):
            traffic = Traffic(port, bodies, (), leaving=0.0, accepted=[{answer} for answer in alone])
            began = time.perf_counter()
            asyncio.run(traffic.run_during(requests, clients, happens(containers)))
            row.add(traffic, time.perf_counter() - began)
        figures = (row.runs, row.answered, row.refused, row.lost, row.twice, row.changed, row.longest_ms)
        print(f"{name:24}" + "".join(f"  {figure:>10,.0f}" for figure in figures), flush=True)
        wrong += row.wrong
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
