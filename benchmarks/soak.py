"""Does the service lose a request, answer one twice, change a response or grow, over tens of thousands of them?

    python -m benchmarks.soak --requests 50000 --kills 20

Starts the service, requests every sentence alone, then from many clients at once, some of which disconnect early, and
last while its workers are killed. Exits with 1 if anything was lost, answered twice or changed.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from app.runtime.process_memory import proportional_set_size
from benchmarks.balancer import children, family
from benchmarks.cores import processor
from benchmarks.ports import free_port
from benchmarks.servers import CACHE, CACHE_BYTES

SYLLABLES = ("ba", "den", "fi", "gor", "lu", "mas", "nel", "o", "pra", "qui", "ros", "tan", "u", "vel", "xi", "zo")
READY_TIMEOUT_S, RESPONSE_TIMEOUT_S = 600.0, 120.0


class Lost(Exception):
    """No response arrived although the client stayed connected."""


@dataclass
class Outcomes:
    """Outcomes of requests, by number."""

    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    changed: int = 0
    left: int = 0
    longest_s: float = 0.0
    """The longest time from a request to its response."""

    @property
    def answered(self) -> int:
        return self.statuses.total()

    @property
    def wrong(self) -> int:
        """Requests with a wrong outcome. A refusal is one only if all requests are refused."""
        unexpected = self.answered - self.statuses[200] - (self.statuses[503] if self.statuses[200] else 0)
        return self.lost + self.twice + self.changed + unexpected

    def __str__(self) -> str:
        responses = ", ".join(f"{count:,} with {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.answered:,} answered ({responses}), {self.left:,} clients left; "
            f"{self.lost} lost, {self.twice} answered twice, {self.changed} changed"
        )


# ---- The service


@contextmanager
def running_service(
    bundles: Path, settings: dict[str, str], before: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Starts the service; yields its process and port when it is ready. `before` is a command that starts it."""
    port = free_port()
    variables = {"INTERLINEAR_BUNDLES": str(bundles.resolve()), "INTERLINEAR_PORT": str(port), **settings}
    command = [*before, sys.executable, "-m", "app", "serve"]
    process = subprocess.Popen(command, env={**os.environ, **variables}, stderr=subprocess.DEVNULL)
    try:
        wait_until_ready(port)
        yield process, port
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(port: int) -> float:
    """Waits until the service is ready; returns the seconds. Raises TimeoutError."""
    started = time.perf_counter()
    while time.perf_counter() - started < READY_TIMEOUT_S:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return time.perf_counter() - started
    raise TimeoutError(f"the service was not ready within {READY_TIMEOUT_S:.0f} s")


def workers_of(front: int) -> list[int]:
    """Process ids of the service's workers."""
    return list(filter(is_worker, children(front)))


def is_worker(process: int) -> bool:
    """Whether a process decodes; False if it has ended."""
    with suppress(OSError):
        return b"app.engine.worker" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


def memory(front: int) -> float:
    """MB of all processes of the service, pages that they share counted once; NaN if one of them exits meanwhile."""
    return sum(map(proportional_set_size, family(front))) / 1e6


# ---- The clients


class Client:
    """A minimal HTTP/1.1 client with one persistent connection, which it reopens after `leave`, or when the server ends
    it."""

    def __init__(self, port: int, body_delay_s: float = 0.0) -> None:
        """`body_delay_s`: from the head of a request to its body; 0 for both in one packet."""
        self._port, self._body_delay_s = port, body_delay_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._ends = False
        """Whether the server closes the connection after the last response."""
        self._number = 0
        """Of the last request on the connection."""

    async def send(self, body: bytes) -> None:
        """Sends a request. Raises Lost."""
        head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        try:
            if self._ends:
                self.leave()
            if self._streams is None:
                self._streams, self._number = await asyncio.open_connection("127.0.0.1", self._port), 0
            self._number += 1
            parts = [head.encode() + b"\r\n\r\n", body]
            for part in parts if self._body_delay_s else [b"".join(parts)]:
                self._streams[1].write(part)
                await self._streams[1].drain()
                await asyncio.sleep(self._body_delay_s)
        except OSError as error:
            self.leave()
            raise Lost(f"request {self._number} of its connection, not sent: {error!r}") from error

    async def receive(self) -> tuple[int, bytes]:
        """Receives a response: its status and body. Raises Lost."""
        assert self._streams is not None
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                head = await self._streams[0].readuntil(b"\r\n\r\n")
                lines = head.decode().lower().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
                status, body = int(lines[0].split()[1]), await self._streams[0].readexactly(length)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            self.leave()
            raise Lost(f"request {self._number} of its connection: {error!r}") from error
        self._ends = "connection: close" in lines
        return status, body

    @property
    def has_more(self) -> bool:
        """Whether there is data beyond the responses to the requests sent."""
        return self._streams is not None and bool(self._streams[0]._buffer)  # type: ignore[attr-defined]

    def leave(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams, self._ends = None, False


def pseudoword_sentences(count: int, longest: int, seed: int) -> list[str]:
    """Sentences of 1 to `longest` pseudowords."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))) for _ in range(400)]
    return [" ".join(draw.choices(words, k=draw.randint(1, longest))).capitalize() + "." for _ in range(count)]


@dataclass
class Soak:
    """Concurrent clients that request sentences and compare the responses with those of a sequential run."""

    port: int
    bodies: Sequence[bytes]
    expected: Sequence[bytes]
    leaving: float
    outcomes: Outcomes = field(default_factory=Outcomes)
    sent: int = 0
    until: int = 0
    """How many requests to send before the clients stop."""
    pause_s: float = 0.0
    """How long each client pauses between requests."""
    body_delay_s: float = 0.0

    async def run(self, requests: int, clients: int) -> None:
        """Sends `requests` in total from `clients` concurrent clients."""
        self.until = self.sent + requests
        await asyncio.gather(*(self._client(random.Random(number)) for number in range(clients)))

    async def _client(self, draw: random.Random) -> None:
        client = Client(self.port, self.body_delay_s)
        while self.sent < self.until:
            self.sent += 1
            number = draw.randrange(len(self.bodies))
            began = time.perf_counter()
            try:
                await client.send(self.bodies[number])
                if draw.random() < self.leaving:
                    await asyncio.sleep(draw.random() * 0.05)
                    client.leave()
                    self.outcomes.left += 1
                    continue
                self._record(number, *await client.receive())
            except Lost as error:
                self.outcomes.lost += 1
                print(f"lost after {time.perf_counter() - began:.1f} s: {error}", file=sys.stderr)
            self.outcomes.longest_s = max(self.outcomes.longest_s, time.perf_counter() - began)
            if client.has_more:
                self.outcomes.twice += 1
            if self.pause_s:
                await asyncio.sleep(self.pause_s)
        await asyncio.sleep(0.1)
        self.outcomes.twice += client.has_more
        client.leave()

    def _record(self, number: int, status: int, body: bytes) -> None:
        self.outcomes.statuses[status] += 1
        self.outcomes.changed += status == 200 and body != self.expected[number]


async def request_sequentially(port: int, bodies: Sequence[bytes]) -> list[bytes]:
    """Sends one request after the other; returns the responses. Raises RuntimeError if one is refused."""
    client, responses = Client(port), []
    for body in bodies:
        await client.send(body)
        status, response = await client.receive()
        if status != 200:
            raise RuntimeError(f"status {status} in the sequential run: {response.decode()}")
        responses.append(response)
    client.leave()
    return responses


async def kill_workers(front: int, kills: int, every_s: float) -> int:
    """Kills one worker after the other with SIGKILL; returns their number."""
    killed = 0
    for _ in range(kills):
        await asyncio.sleep(every_s)
        if workers := workers_of(front):
            os.kill(random.choice(workers), signal.SIGKILL)
            killed += 1
    return killed


async def soak(front: int, port: int, options: dict[str, Any]) -> int:
    """Runs the whole soak test and prints its results; returns the number of wrong outcomes."""
    sentences = pseudoword_sentences(options["sentences"], options["longest"], options["seed"])
    bodies = [
        json.dumps({"text": s, "source": options["source"], "target": options["target"]}).encode() for s in sentences
    ]
    run = Soak(port, bodies, await request_sequentially(port, bodies), options["leaving"])
    print(f"{len(bodies):,} sentences, one at a time: {memory(front):.0f} MB", flush=True)
    parts, started, readings = 10, time.perf_counter(), list[float]()
    for part in range(parts):
        await run.run(options["requests"] // parts, options["clients"])
        readings.append(memory(front))
        rate = run.sent / (time.perf_counter() - started)
        print(f"{run.sent:>9,} requests, {rate:6.0f} a second: {readings[part]:.0f} MB", flush=True)
    first, highest = readings[0], max(readings)
    print(f"{run.outcomes}\nmemory after the first tenth {first:.0f} MB, at most {highest:.0f} MB: ", end="")
    print(f"{highest - first:+.0f} MB")
    wrong = run.outcomes.wrong
    if options["kills"]:
        run.outcomes = Outcomes()
        killing = asyncio.create_task(kill_workers(front, options["kills"], options["kill_every_s"]))
        while not killing.done():
            await run.run(options["clients"] * 20, options["clients"])
        print(f"while {await killing} workers were killed: {run.outcomes}")
        wrong += run.outcomes.wrong
    return wrong


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle, or folder of bundles, to serve.")] = Path("bundles/en-fr"),
    source: str = "en",
    target: str = "fr",
    requests: Annotated[int, typer.Option(help="Number of requests after the sequential run.")] = 50_000,
    sentences: Annotated[int, typer.Option(help="Number of different sentences, of pseudowords.")] = 2_000,
    longest: Annotated[int, typer.Option(help="Words of the longest sentence.")] = 16,
    clients: Annotated[int, typer.Option(help="Concurrent connections.")] = 64,
    leaving: Annotated[float, typer.Option(help="Share of requests whose client disconnects within 50 ms.")] = 0.05,
    kills: Annotated[int, typer.Option(help="Workers to kill at the end.")] = 20,
    kill_every_s: float = 3.0,
    seed: int = 0,
) -> None:
    """Check that no request is lost, answered twice or changed, and that memory does not grow."""
    options = dict(locals())
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, torch {torch.__version__}")
    print(f"{bundle}; {requests:,} requests from {clients} clients; cache {CACHE}")
    settings = {"INTERLINEAR_MAX_WAIT_MS": "60000", "INTERLINEAR_CACHE_BYTES": CACHE_BYTES}
    with running_service(bundle, settings) as (process, port):
        wrong = asyncio.run(soak(process.pid, port, options))
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
