"""Measures the cost of harmful clients: unread responses, unfinished bodies, and many connections at once.

    python -m benchmarks.overload

Starts the service for each, and prints the front process's resident memory and the latency of /health meanwhile.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import random
import socket
import tempfile
import threading
import time
import urllib.request
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from app.http.api_keys import new_key
from benchmarks.cores import processor
from benchmarks.load import Generator, Load, figures
from benchmarks.soak import pseudoword_sentences, running_service

HOST = "127.0.0.1"
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SETTLE_S = 2.0
PROBE_INTERVAL_S = 0.1
"""Between requests of /health, and between readings of the memory."""


@dataclass
class LoadReport:
    """Effects of a load on the service."""

    before_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    health_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    """Statuses of responses; 0: the connection was closed without one."""

    def __str__(self) -> str:
        responses = ", ".join(f"{count:,} x {status}" for status, count in sorted(self.statuses.items()))
        health = f"/health {max(self.health_s, default=0.0):.2f} s at most of {len(self.health_s)}"
        memory = f"{self.before_mb:.0f} MB before, {self.peak_mb:.0f} at most, {self.after_mb:.0f} after"
        return f"memory {memory}; {health}; {responses or 'no responses'}"


def resident_mb(process: int) -> float:
    """Resident memory of the process without its children."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


@contextlib.contextmanager
def monitored(port: int, front: int, settle_s: float) -> Iterator[LoadReport]:
    """Polls /health, on a new connection each time, and the memory; reads it once more `settle_s` after the end."""
    report, over = LoadReport(before_mb=resident_mb(front)), threading.Event()

    def read_memory() -> None:
        while not over.wait(PROBE_INTERVAL_S):
            report.peak_mb = max(report.peak_mb, resident_mb(front))

    def probe_health() -> None:
        while not over.wait(PROBE_INTERVAL_S):
            began = time.perf_counter()
            get(port, "/health")
            report.health_s.append(time.perf_counter() - began)

    threads = [threading.Thread(target=read_memory), threading.Thread(target=probe_health)]
    for thread in threads:
        thread.start()
    try:
        yield report
    finally:
        over.set()
        for thread in threads:
            thread.join()
        time.sleep(settle_s)

        report.after_mb = resident_mb(front)


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=60) as response:
        content: bytes = response.read()
    return content


# ---- Unread responses


def slow_readers(port: int, front: int, count: int, size: int, wait_s: float, settle_s: float = SETTLE_S) -> LoadReport:
    """Runs `count` clients that each have a file of `size` bytes translated, and read nothing of it for `wait_s`."""
    sent = upload(document(size))
    with monitored(port, front, settle_s) as report, contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((HOST, port), timeout=60))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            with contextlib.suppress(ConnectionError):  # refused before all is sent
                connection.sendall(sent)
            with contextlib.suppress(OSError):
                connection.recv(1, socket.MSG_PEEK)  # the response has begun
            connections.append(connection)
        time.sleep(wait_s)
        report.statuses.update(map(_status, connections))
    return report


def upload(content: bytes) -> bytes:
    """A request that has a .docx translated."""
    boundary = uuid.uuid4().hex
    fields = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {"source": "en", "target": "fr"}.items()
    )
    head = f'{fields}--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.docx"\r\n\r\n'
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    lines = "POST /translate/file HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"
    return "\r\n".join([*lines, f"Content-Type: multipart/form-data; boundary={boundary}", "", ""]).encode() + body


def document(size: int) -> bytes:
    """A .docx of about `size` bytes: one paragraph, and a picture that fills the rest."""
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    kinds = "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{kinds}/content-types">'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{kinds}/relationships">'
        f'<Relationship Id="r" Type="{office}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{word}"><w:body><w:p><w:r><w:t>Hello.</w:t></w:r></w:p>'
        "</w:body></w:document>",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        archive.writestr("word/media/image1.png", random.Random(0).randbytes(max(0, size - 2_000)))
    return made.getvalue()


def _status(connection: socket.socket) -> int:
    try:
        return int(connection.recv(64).split()[1])
    except (OSError, IndexError):
        return 0


# ---- Unfinished bodies


def unfinished_bodies(
    port: int, front: int, count: int, size: int, wait_s: float, path: str, settle_s: float = SETTLE_S
) -> LoadReport:
    """Runs `count` clients that each send `size` bytes of a body to `path`, and never the last one."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size + 1}\r\n\r\n"
    sent = head.encode() + b'{"q": "' + b"a" * (size - 7)
    with monitored(port, front, settle_s) as report, contextlib.ExitStack() as stack:
        connections = [_sender(sent, port) for _ in range(count)]
        for connection in connections:
            stack.enter_context(connection)
        left = dict.fromkeys(connections, 0)
        until = time.monotonic() + wait_s
        while left and time.monotonic() < until:
            for connection, done in list(left.items()):
                with contextlib.suppress(BlockingIOError):
                    try:
                        left[connection] = done + connection.send(memoryview(sent)[done:])
                    except ConnectionError:
                        left[connection] = len(sent)
                if left[connection] == len(sent):
                    del left[connection]
            time.sleep(0.01)
        time.sleep(max(0.0, until - time.monotonic()))
        for connection in connections:
            with contextlib.suppress(BlockingIOError):
                report.statuses[_status_now(connection)] += 1
    return report


def _sender(sent: bytes, port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), timeout=60)
    connection.setblocking(False)
    return connection


def _status_now(connection: socket.socket) -> int:
    """The status of the response; 0 if the connection is closed. Raises BlockingIOError if there is no response yet."""
    try:
        return int(connection.recv(64).split()[1])
    except BlockingIOError:
        raise
    except (OSError, IndexError):
        return 0


# ---- Many connections


def burst(
    port: int,
    front: int,
    connections: int,
    seconds: float,
    folder: Path,
    different: int = 20_000,
    settle_s: float = SETTLE_S,
) -> LoadReport:
    """Runs `connections` clients that each send a request as soon as the last one is answered."""
    sentences = pseudoword_sentences(different, 16, 1)
    bodies = folder / "bodies.jsonl"
    bodies.write_text("".join(json.dumps({"text": s, "source": "en", "target": "fr"}) + "\n" for s in sentences))
    generator = Generator(folder, None, seconds, 0.0)
    with monitored(port, front, settle_s) as report:
        printed = generator.run(port, bodies, Load("closed", connections))
    report.statuses.update({int(status): count for status, count in printed["statuses"].items()})
    report.statuses[0] += int(figures(printed)["failed"] * printed["arrived"])
    return report


# ---- The program


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle, or folder of bundles, to serve.")] = Path("bundles/en-fr"),
    readers: Annotated[int, typer.Option(help="Clients that do not read responses.")] = 60,
    bodies: Annotated[int, typer.Option(help="Clients that do not finish their bodies.")] = 1_500,
    connections: Annotated[int, typer.Option(help="Concurrent clients of the burst.")] = 700,
    seconds: Annotated[float, typer.Option(help="Duration of each load.")] = 10.0,
    only: Annotated[str, typer.Option(help="Run only this: readers, bodies or burst.")] = "",
) -> None:
    """Measure the service under unread responses, unfinished bodies and many connections."""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "keys").write_text(new_key("alice")[1] + "\n")
        keys = {"INTERLINEAR_API_KEYS_FILE": str(folder / "keys")}
        size = 16_000_000
        loads: dict[str, tuple[str, dict[str, str], Any]] = {
            "readers": (
                f"{readers} clients that do not read 16 MB",
                {"INTERLINEAR_SEND_TIMEOUT_MS": "5000"},
                lambda port, front: slow_readers(port, front, readers, size, seconds),
            ),
            "bodies": (
                f"{bodies:,} unfinished bodies of 1 MB without a key",
                keys,
                lambda port, front: unfinished_bodies(
                    port, front, bodies, 1_000_000, seconds, "/libretranslate/translate"
                ),
            ),
            "burst": (
                f"{connections} connections",
                {},
                lambda port, front: burst(port, front, connections, seconds, folder),
            ),
        }
        for load, (title, settings, run) in loads.items():
            if only in ("", load):
                with running_service(bundle, settings) as (process, port):
                    print(f"{title}: {run(port, process.pid)}", flush=True)


if __name__ == "__main__":
    typer.run(main)
