"""Checks that a service that shuts down loses no request that was sent completely.

    python -m benchmarks.stopping --runs 20

Starts the service, sends it requests from many clients and then SIGTERM, and counts the outcome of every request: over
persistent connections, and over a new one for each. Exits with 1 if one was lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import select
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Annotated, Literal

import typer

from benchmarks.cores import processor
from benchmarks.soak import pseudoword_sentences, running_service

Outcome = Literal["answered", "refused", "other", "lost", "idle", "unsent"]
"""Outcome of a request. answered: status 200. refused: 503. other: another status. lost: sent completely, without a
complete response. idle: lost on a connection unused for IDLE_S, which a server may close (RFC 9112, section 9.3.1).
unsent: no connection, or one closed before the request was sent completely; such a request may be sent again."""
Outcomes = Counter[Outcome]
Kind = Literal["kept", "new"]
"""Of connections: persistent, or a new one for each request."""
IDLE_S = 0.5
RESPONSE_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 600.0
"""Long, so that no request counts as lost on a busy machine."""


class Client:
    """Sends one request after the other until the service accepts no more."""

    def __init__(self, port: int, kind: Kind, draw: random.Random, pause_s: float) -> None:
        self.outcomes = Outcomes()
        self._port, self._kind, self._draw, self._pause_s = port, kind, draw, pause_s
        self._socket: socket.socket | None = None
        self._used = 0.0

    async def run(self, bodies: list[bytes]) -> None:
        while (outcome := await self._request(self._draw.choice(bodies))) != "unsent":
            self.outcomes[outcome] += 1
            if self._pause_s:
                await asyncio.sleep(self._draw.random() * 2 * self._pause_s)
        self.outcomes[outcome] += 1

    async def _request(self, body: bytes) -> Outcome:
        loop = asyncio.get_running_loop()
        head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        if self._kind == "new":
            head += "\r\nconnection: close"
        idle = False
        try:
            if self._socket is None or _is_closed(self._socket):
                await self._connect()
            else:
                idle = time.perf_counter() - self._used > IDLE_S
            assert self._socket is not None
            await loop.sock_sendall(self._socket, head.encode() + b"\r\n\r\n" + body)
        except OSError:
            self._leave()
            return "unsent"
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                return await self._receive(self._socket)
        except (OSError, EOFError, TimeoutError):
            self._leave()
            return "idle" if idle else "lost"

    async def _connect(self) -> None:
        self._leave()
        self._socket = socket.socket()
        self._socket.setblocking(False)
        await asyncio.get_running_loop().sock_connect(self._socket, ("127.0.0.1", self._port))

    async def _receive(self, connection: socket.socket) -> Outcome:
        """Receives a response. Raises EOFError if it is incomplete, and OSError."""
        loop, found = asyncio.get_running_loop(), b""
        while b"\r\n\r\n" not in found:
            found += await _received(loop, connection)
        head, _, rest = found.partition(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])
        while len(rest) < int(fields[b"content-length"]):
            rest += await _received(loop, connection)
        self._used = time.perf_counter()
        if self._kind == "new" or fields.get(b"connection") == b"close":
            self._leave()
        return {b"200": "answered", b"503": "refused"}.get(head.split(b" ")[1], "other")  # type: ignore[return-value]

    def _leave(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


async def _received(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> bytes:
    if not (piece := await loop.sock_recv(connection, 1 << 16)):
        raise EOFError
    return piece


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed the connection, or sent data without a request."""
    return bool(select.select([connection], [], [], 0)[0])


async def stop_under_load(
    process: subprocess.Popen[bytes],
    port: int,
    kinds: Sequence[Kind],
    *,
    clients: int,
    after_s: float,
    pause_s: float,
    seed: int,
) -> tuple[Outcomes, float]:
    """Sends requests from `clients`, whose connections are of these kinds in turn, and stops `process` after `after_s`,
    or after the first response if that is later.

    Returns the outcomes of the requests, and the seconds until the process exited. Raises TimeoutError if it does not
    exit, and RuntimeError if it exits with an error.
    """
    sentences = pseudoword_sentences(200, 8, seed)
    bodies = [json.dumps({"text": text, "source": "en", "target": "fr"}).encode() for text in sentences]
    numbered = zip(range(clients), cycle(kinds), strict=False)
    senders = [Client(port, kind, random.Random(seed + number), pause_s) for number, kind in numbered]
    tasks = [asyncio.create_task(client.run(bodies)) for client in senders]
    await asyncio.sleep(after_s)
    async with asyncio.timeout(RESPONSE_TIMEOUT_S):
        while not any(client.outcomes["answered"] for client in senders):  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    signalled = time.perf_counter()
    async with asyncio.timeout(STOP_TIMEOUT_S):
        await asyncio.gather(*tasks)
        await asyncio.to_thread(process.wait)
    if process.returncode:
        raise RuntimeError(f"the service exited with status {process.returncode}")
    return sum((client.outcomes for client in senders), Outcomes()), time.perf_counter() - signalled


def stops(
    bundle: Path,
    kinds: Sequence[Kind],
    *,
    runs: int,
    clients: int = 64,
    pause_s: float = 0.0,
    drain_ms: int | None = None,
    say: Callable[[str], None] = print,
) -> Outcomes:
    """Stops `runs` services under load; reports each run, and returns the outcomes of all requests."""
    total, name = Outcomes(), " and ".join(kinds)
    settings = {} if drain_ms is None else {"INTERLINEAR_DRAIN_MS": str(drain_ms)}
    for run in range(runs):
        with running_service(bundle, settings) as (process, port):
            options = {"clients": clients, "after_s": 0.5 + random.Random(run).random(), "pause_s": pause_s}
            outcomes, seconds = asyncio.run(stop_under_load(process, port, kinds, seed=run * clients, **options))  # type: ignore[arg-type]
        say(f"{name:>4} connections, run {run + 1:>2}: {summary(outcomes)}; exited after {seconds:.2f} s")
        total += outcomes
    say(f"{name:>4} connections, {runs} runs: {summary(total)}")
    return total


def summary(outcomes: Outcomes) -> str:
    sent = outcomes.total() - outcomes["unsent"]
    others = f", {outcomes['other']} with another status" if outcomes["other"] else ""
    others += f", {outcomes['idle']} on idle connections" if outcomes["idle"] else ""
    return (
        f"{outcomes['lost']} lost of {sent:,} sent completely ({outcomes['answered']:,} answered, "
        f"{outcomes['refused']:,} with 503{others}), {outcomes['unsent']} not sent"
    )


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle to serve, English to French.")] = Path("bundles/en-fr"),
    runs: Annotated[int, typer.Option(help="Runs for each kind of connection.")] = 20,
    clients: Annotated[int, typer.Option(help="Concurrent clients.")] = 64,
    pause: Annotated[float, typer.Option(help="Mean pause of a client between requests, in seconds.")] = 0.0,
    drain_ms: Annotated[int | None, typer.Option(help="INTERLINEAR_DRAIN_MS")] = None,
) -> None:
    """Check that the service, stopped under load again and again, loses no request that was sent completely."""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}; {clients} clients")
    lost = 0
    kinds: tuple[Kind, Kind] = ("kept", "new")
    for kind in kinds:
        lost += stops(bundle, [kind], runs=runs, clients=clients, pause_s=pause, drain_ms=drain_ms)["lost"]
    raise typer.Exit(1 if lost else 0)


if __name__ == "__main__":
    typer.run(main)
