"""What do harmful clients cost? Responses that are not read, bodies that do not end, and many connections at once.

    python -m benchmarks.overload

Starts the service for each, and prints the front process's resident memory and how long /health took meanwhile.
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
from benchmarks.soak import PAGE, made_sentences, served

HOST = "127.0.0.1"
PROBE_S = 0.1
"""How often /health is asked, and memory looked at."""


@dataclass
class Seen:
    """What a load did to the service."""

    before_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    health_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    """Of what was answered; 0: cut off without an answer."""

    def __str__(self) -> str:
        answers = ", ".join(f"{count:,} x {status}" for status, count in sorted(self.statuses.items()))
        health = f"/health {max(self.health_s, default=0.0):.2f} s at most of {len(self.health_s)}"
        memory = f"{self.before_mb:.0f} MB before, {self.peak_mb:.0f} at most, {self.after_mb:.0f} after"
        return f"memory {memory}; {health}; {answers or 'no answers'}"


def resident_mb(process: int) -> float:
    """The process alone, not its children."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6


@contextlib.contextmanager
def watched(port: int, front: int, settle_s: float = 2.0) -> Iterator[Seen]:
    """Asks /health, each time anew, and looks at the memory; `settle_s` after the end once more."""
    seen, over = Seen(before_mb=resident_mb(front)), threading.Event()

    def look() -> None:
        while not over.wait(PROBE_S):
            seen.peak_mb = max(seen.peak_mb, resident_mb(front))

    def probe() -> None:
        while not over.wait(PROBE_S):
            began = time.perf_counter()
            get(port, "/health")
            seen.health_s.append(time.perf_counter() - began)

    threads = [threading.Thread(target=look), threading.Thread(target=probe)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()
        time.sleep(settle_s)
        seen.after_mb = resident_mb(front)


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=60) as response:
        content: bytes = response.read()
    return content


# ---- Answers that nobody reads


def slow_readers(port: int, front: int, count: int, size: int, wait_s: float) -> Seen:
    """`count` clients that each have a file of `size` bytes translated, and read nothing of it for `wait_s`."""
    sent = upload(document(size))
    with watched(port, front) as seen, contextlib.ExitStack() as stack:
        asked = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((HOST, port), timeout=60))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            with contextlib.suppress(ConnectionError):  # refused before all is sent
                connection.sendall(sent)
            with contextlib.suppress(OSError):
                connection.recv(1, socket.MSG_PEEK)  # the answer has begun
            asked.append(connection)
        time.sleep(wait_s)
        seen.statuses.update(map(_status, asked))
    return seen


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
    """A .docx of one paragraph and a picture, the bytes of which make it `size` bytes long, about."""
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


# ---- Bodies that do not end


def unfinished_bodies(port: int, front: int, count: int, size: int, wait_s: float, path: str) -> Seen:
    """`count` clients that each send `size` bytes of a body to `path`, and never the last one."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size + 1}\r\n\r\n"
    sent = head.encode() + b'{"q": "' + b"a" * (size - 7)
    with watched(port, front) as seen, contextlib.ExitStack() as stack:
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
                seen.statuses[_status_now(connection)] += 1
    return seen


def _sender(sent: bytes, port: int) -> socket.socket:
    connection = socket.create_connection((HOST, port), timeout=60)
    connection.setblocking(False)
    return connection


def _status_now(connection: socket.socket) -> int:
    """Raises BlockingIOError if nothing has come."""
    try:
        return int(connection.recv(64).split()[1])
    except BlockingIOError:
        raise
    except (OSError, IndexError):
        return 0


# ---- Many at once


def burst(port: int, front: int, connections: int, seconds: float, folder: Path, different: int = 20_000) -> Seen:
    """`connections` clients that each send the next request as soon as the last is answered."""
    sentences = made_sentences(different, 16, 1)
    bodies = folder / "bodies.jsonl"
    bodies.write_text("".join(json.dumps({"text": s, "source": "en", "target": "fr"}) + "\n" for s in sentences))
    generator = Generator(folder, None, seconds, 0.0)
    with watched(port, front) as seen:
        printed = generator.run(port, bodies, Load("closed", connections))
    seen.statuses.update({int(status): count for status, count in printed["statuses"].items()})
    seen.statuses[0] += int(figures(printed)["failed"] * printed["arrived"])
    return seen


# ---- The program


def main(
    bundle: Annotated[Path, typer.Option(help="The bundle, or folder of bundles, to serve.")] = Path("bundles/en-fr"),
    readers: Annotated[int, typer.Option(help="Clients that read nothing.")] = 60,
    bodies: Annotated[int, typer.Option(help="Clients that do not end their body.")] = 1_500,
    connections: Annotated[int, typer.Option(help="Clients at once.")] = 700,
    seconds: Annotated[float, typer.Option(help="How long each lasts.")] = 10.0,
    only: Annotated[str, typer.Option(help="readers, bodies or burst alone.")] = "",
) -> None:
    """Measures the service under clients that read nothing, that end nothing, and that are many."""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "keys").write_text(new_key("alice")[1] + "\n")
        keys = {"INTERLINEAR_API_KEYS_FILE": str(folder / "keys")}
        size = 16_000_000
        loads: dict[str, tuple[str, dict[str, str], Any]] = {
            "readers": (
                f"{readers} clients that read nothing of 16 MB",
                {"INTERLINEAR_SEND_TIMEOUT_MS": "5000"},
                lambda port, front: slow_readers(port, front, readers, size, seconds),
            ),
            "bodies": (
                f"{bodies:,} bodies of 1 MB without a key and without an end",
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
                with served(bundle, settings) as (process, port):
                    print(f"{title}: {run(port, process.pid)}", flush=True)


if __name__ == "__main__":
    typer.run(main)
