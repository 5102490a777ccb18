"""Does a service that shuts down lose requests that were sent completely?

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
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from benchmarks.cores import processor
from benchmarks.soak import made_sentences, served

Fate = Literal["answered", "refused", "other", "lost", "idle", "unsent"]
"""Of one request. answered: 200. refused: 503. other: another status. lost: sent whole, and no whole answer came.
idle: lost on a connection over which nothing had gone for IDLE_S, which a server may close (RFC 9112, section 9.3.1).
unsent: no connection, or one that was closed before the request was sent whole; such a request may be sent again."""
Fates = Counter[Fate]
Kind = Literal["kept", "new"]
IDLE_S = 0.5
ANSWER_S = 300.0
STOP_S = 600.0
"""So that a busy machine, on which all takes long, loses nothing."""


class Client:
    """Sends one request after the other until the service takes no more."""

    def __init__(self, port: int, kind: Kind, draw: random.Random, pause_s: float) -> None:
        self.fates = Fates()
        self._port, self._kind, self._draw, self._pause_s = port, kind, draw, pause_s
        self._socket: socket.socket | None = None
        self._used = 0.0

    async def run(self, bodies: list[bytes]) -> None:
        while (fate := await self._ask(self._draw.choice(bodies))) != "unsent":
            self.fates[fate] += 1
            if self._pause_s:
                await asyncio.sleep(self._draw.random() * 2 * self._pause_s)
        self.fates[fate] += 1

    async def _ask(self, body: bytes) -> Fate:
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
            async with asyncio.timeout(ANSWER_S):
                return await self._answer(self._socket)
        except (OSError, EOFError, TimeoutError):
            self._leave()
            return "idle" if idle else "lost"

    async def _connect(self) -> None:
        self._leave()
        self._socket = socket.socket()
        self._socket.setblocking(False)
        await asyncio.get_running_loop().sock_connect(self._socket, ("127.0.0.1", self._port))

    async def _answer(self, connection: socket.socket) -> Fate:
        """Raises EOFError if it is not whole, and OSError."""
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
    """Whether the other end has closed it, or sent what nobody asked for."""
    return bool(select.select([connection], [], [], 0)[0])


async def stop_under_load(
    process: subprocess.Popen[bytes], port: int, kind: Kind, *, clients: int, after_s: float, pause_s: float, seed: int
) -> tuple[Fates, float]:
    """What became of the requests of `clients`, of which `process` is told to stop `after_s` into, or when the first is
    answered if that is later; and how many seconds it then took to end.

    Raises TimeoutError if it does not end, and RuntimeError if it says that it failed.
    """
    sentences = made_sentences(200, 8, seed)
    bodies = [json.dumps({"text": text, "source": "en", "target": "fr"}).encode() for text in sentences]
    asking = [Client(port, kind, random.Random(seed + number), pause_s) for number in range(clients)]
    tasks = [asyncio.create_task(client.run(bodies)) for client in asking]
    await asyncio.sleep(after_s)
    async with asyncio.timeout(ANSWER_S):
        while not any(client.fates["answered"] for client in asking):  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    told = time.perf_counter()
    async with asyncio.timeout(STOP_S):
        await asyncio.gather(*tasks)
        await asyncio.to_thread(process.wait)
    if process.returncode:
        raise RuntimeError(f"the service ended with {process.returncode}")
    return sum((client.fates for client in asking), Fates()), time.perf_counter() - told


def stops(
    bundle: Path,
    kind: Kind,
    *,
    runs: int,
    clients: int = 64,
    pause_s: float = 0.0,
    drain_ms: int | None = None,
    say: Callable[[str], None] = print,
) -> Fates:
    """What became of all requests of `runs` services that were stopped under load; each run's is said."""
    total = Fates()
    settings = {} if drain_ms is None else {"INTERLINEAR_DRAIN_MS": str(drain_ms)}
    for run in range(runs):
        with served(bundle, settings) as (process, port):
            options = {"clients": clients, "after_s": 0.5 + random.Random(run).random(), "pause_s": pause_s}
            fates, seconds = asyncio.run(stop_under_load(process, port, kind, seed=run * clients, **options))  # type: ignore[arg-type]
        say(f"{kind:>4} connections, run {run + 1:>2}: {told(fates)}; ended after {seconds:.2f} s")
        total += fates
    say(f"{kind:>4} connections, {runs} runs: {told(total)}")
    return total


def told(fates: Fates) -> str:
    sent = fates.total() - fates["unsent"]
    others = f", {fates['other']} with another status" if fates["other"] else ""
    others += f", {fates['idle']} on connections that were idle" if fates["idle"] else ""
    return (
        f"{fates['lost']} lost of {sent:,} sent whole ({fates['answered']:,} answered, {fates['refused']:,} with 503"
        f"{others}), {fates['unsent']} not sent"
    )


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle, English to French, to serve.")] = Path("bundles/en-fr"),
    runs: Annotated[int, typer.Option(help="Of each kind of connection.")] = 20,
    clients: Annotated[int, typer.Option(help="At once.")] = 64,
    pause: Annotated[float, typer.Option(help="Seconds that a client waits between requests, on average.")] = 0.0,
    drain_ms: Annotated[int | None, typer.Option(help="INTERLINEAR_DRAIN_MS")] = None,
) -> None:
    """Stops the service under load, again and again: is a request lost that was sent whole?"""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}; {clients} clients")
    lost = 0
    kinds: tuple[Kind, Kind] = ("kept", "new")
    for kind in kinds:
        lost += stops(bundle, kind, runs=runs, clients=clients, pause_s=pause, drain_ms=drain_ms)["lost"]
    raise typer.Exit(1 if lost else 0)


if __name__ == "__main__":
    typer.run(main)
