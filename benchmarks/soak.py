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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.cores import processor
from benchmarks.ports import free_port
from benchmarks.servers import CACHE, CACHE_BYTES

SYLLABLES = ("ba", "den", "fi", "gor", "lu", "mas", "nel", "o", "pra", "qui", "ros", "tan", "u", "vel", "xi", "zo")
PAGE = os.sysconf("SC_PAGE_SIZE")
READY_S, ANSWER_S = 600.0, 120.0


class Lost(Exception):
    """No answer came, and the client had not left."""


@dataclass
class Count:
    """What became of the requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0
    twice: int = 0
    changed: int = 0
    left: int = 0

    @property
    def answered(self) -> int:
        return self.statuses.total()

    @property
    def wrong(self) -> int:
        """How many; refused ones are not, unless all are."""
        unexpected = self.answered - self.statuses[200] - (self.statuses[503] if self.statuses[200] else 0)
        return self.lost + self.twice + self.changed + unexpected

    def __str__(self) -> str:
        answers = ", ".join(f"{count:,} with {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.answered:,} answered ({answers}), {self.left:,} clients left; "
            f"{self.lost} lost, {self.twice} answered twice, {self.changed} changed"
        )


# ---- The service


@contextmanager
def served(
    bundles: Path, settings: dict[str, str], before: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The service as a process of its own, ready, and its port; `before` is a command to start it by."""
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
    """Seconds it took. Raises TimeoutError."""
    started = time.perf_counter()
    while time.perf_counter() - started < READY_S:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
        else:
            return time.perf_counter() - started
    raise TimeoutError(f"the service was not ready within {READY_S:.0f} s")


def workers_of(front: int) -> list[int]:
    """The process ids of its workers: its children, by whichever thread they were started."""
    lists = [file.read_text() for file in Path(f"/proc/{front}/task").glob("*/children")]
    return [int(child) for text in lists for child in text.split()]


def memory(front: int) -> float:
    """Resident MB of the front and its workers."""
    pages = 0
    for process in (front, *workers_of(front)):
        pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * PAGE / 1e6


# ---- The clients


class Client:
    """One connection, opened again where the client left; HTTP/1.1, an answer's length in its header."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, body: bytes) -> None:
        """Raises Lost."""
        head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            self._streams[1].write(head.encode() + b"\r\n\r\n" + body)
            await self._streams[1].drain()
        except OSError as error:
            self.leave()
            raise Lost from error

    async def answer(self) -> tuple[int, bytes]:
        """Status and body. Raises Lost."""
        assert self._streams is not None
        try:
            async with asyncio.timeout(ANSWER_S):
                head = await self._streams[0].readuntil(b"\r\n\r\n")
                lines = head.decode().lower().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
                return int(lines[0].split()[1]), await self._streams[0].readexactly(length)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            self.leave()
            raise Lost from error

    @property
    def has_more(self) -> bool:
        """Whether something came that nobody asked for."""
        return self._streams is not None and bool(self._streams[0]._buffer)  # type: ignore[attr-defined]

    def leave(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def made_sentences(count: int, longest: int, seed: int) -> list[str]:
    """Sentences of 1 to `longest` made-up words."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))) for _ in range(400)]
    return [" ".join(draw.choices(words, k=draw.randint(1, longest))).capitalize() + "." for _ in range(count)]


@dataclass
class Soak:
    """Clients that ask for sentences whose answers alone are known."""

    port: int
    bodies: Sequence[bytes]
    expected: Sequence[bytes]
    leaving: float
    count: Count = field(default_factory=Count)
    asked: int = 0

    async def run(self, requests: int, clients: int) -> None:
        """Sends `requests` in all from `clients` at once."""
        self._until = self.asked + requests
        await asyncio.gather(*(self._client(random.Random(number)) for number in range(clients)))

    async def _client(self, draw: random.Random) -> None:
        client = Client(self.port)
        while self.asked < self._until:
            self.asked += 1
            number = draw.randrange(len(self.bodies))
            try:
                await client.send(self.bodies[number])
                if draw.random() < self.leaving:
                    await asyncio.sleep(draw.random() * 0.05)
                    client.leave()
                    self.count.left += 1
                    continue
                self._note(number, *await client.answer())
            except Lost:
                self.count.lost += 1
            if client.has_more:
                self.count.twice += 1
        await asyncio.sleep(0.1)
        self.count.twice += client.has_more
        client.leave()

    def _note(self, number: int, status: int, body: bytes) -> None:
        self.count.statuses[status] += 1
        self.count.changed += status == 200 and body != self.expected[number]


async def ask_alone(port: int, bodies: Sequence[bytes]) -> list[bytes]:
    """The answer to each, one after the other. Raises RuntimeError if one is refused."""
    client, answers = Client(port), []
    for body in bodies:
        await client.send(body)
        status, answer = await client.answer()
        if status != 200:
            raise RuntimeError(f"{status} for a sentence alone: {answer.decode()}")
        answers.append(answer)
    client.leave()
    return answers


async def kill_workers(front: int, kills: int, every_s: float) -> int:
    """SIGKILLs one worker after the other; returns how many it was."""
    killed = 0
    for _ in range(kills):
        await asyncio.sleep(every_s)
        if workers := workers_of(front):
            os.kill(random.choice(workers), signal.SIGKILL)
            killed += 1
    return killed


async def soak(front: int, port: int, options: dict[str, Any]) -> int:
    """Runs all of it and prints what it saw; returns how much was wrong."""
    sentences = made_sentences(options["sentences"], options["longest"], options["seed"])
    bodies = [
        json.dumps({"text": s, "source": options["source"], "target": options["target"]}).encode() for s in sentences
    ]
    run = Soak(port, bodies, await ask_alone(port, bodies), options["leaving"])
    print(f"{len(bodies):,} sentences alone: {memory(front):.0f} MB", flush=True)
    parts, started, seen = 10, time.perf_counter(), list[float]()
    for part in range(parts):
        await run.run(options["requests"] // parts, options["clients"])
        seen.append(memory(front))
        rate = run.asked / (time.perf_counter() - started)
        print(f"{run.asked:>9,} requests, {rate:6.0f} a second: {seen[part]:.0f} MB", flush=True)
    print(f"{run.count}\nmemory after the first tenth {seen[0]:.0f} MB, at most {max(seen):.0f} MB: ", end="")
    print(f"{max(seen) - seen[0]:+.0f} MB")
    wrong = run.count.wrong
    if options["kills"]:
        run.count = Count()
        killing = asyncio.create_task(kill_workers(front, options["kills"], options["kill_every_s"]))
        while not killing.done():
            await run.run(options["clients"] * 20, options["clients"])
        print(f"while {await killing} workers were killed: {run.count}")
        wrong += run.count.wrong
    return wrong


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle, or folder of bundles, to serve.")] = Path("bundles/en-fr"),
    source: str = "en",
    target: str = "fr",
    requests: Annotated[int, typer.Option(help="How many, besides each sentence alone.")] = 50_000,
    sentences: Annotated[int, typer.Option(help="Different ones, of made-up words.")] = 2_000,
    longest: Annotated[int, typer.Option(help="Words in the longest.")] = 16,
    clients: Annotated[int, typer.Option(help="Connections at once.")] = 64,
    leaving: Annotated[float, typer.Option(help="Share of requests whose client leaves within 50 ms.")] = 0.05,
    kills: Annotated[int, typer.Option(help="Workers to kill, after the rest.")] = 20,
    kill_every_s: float = 3.0,
    seed: int = 0,
) -> None:
    """Many requests of random lengths: is any lost, answered twice or changed, and does the memory grow?"""
    options = dict(locals())
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, torch {torch.__version__}")
    print(f"{bundle}; {requests:,} requests from {clients} clients; cache {CACHE}")
    settings = {"INTERLINEAR_MAX_WAIT_MS": "60000", "INTERLINEAR_CACHE_BYTES": CACHE_BYTES}
    with served(bundle, settings) as (process, port):
        wrong = asyncio.run(soak(process.pid, port, options))
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
