"""A web server on loopback that plays the registries of models, with the faults of real servers."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Served:
    """A file. Faults are counted down: each happens in so many requests, and then no more."""

    content: bytes
    etag: str | None = '"1"'
    cut: int | None = None
    """Bytes after which the connection ends, in the next request."""
    statuses: list[int] = field(default_factory=list)
    """Statuses of the next answers, such as 503."""
    retry_after: str | None = None
    """The header that those answers have."""
    stall: int | None = None
    """Bytes after which the next answer stays open and sends nothing, until the server is closed."""
    is_endless: bool = False
    """Whether it goes on with zeros, as long as somebody reads them."""
    on_cut: Callable[[], None] | None = None
    """What happens when the connection ends early."""
    redirect: str | None = None
    token: str | None = None
    """The token that the file is gated by."""
    hides_length: bool = False


class LoopbackRegistry(http.server.ThreadingHTTPServer):
    """Files by path. `asked` has each request's path and Range, `tokens` those that came with a token, and it.

    It is a proxy as well: it answers for every host.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, Served] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.tokens: list[tuple[str, str]] = []
        self.ends = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, path: str, content: bytes) -> Served:
        self.files[path] = Served(content)
        return self.files[path]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: LoopbackRegistry

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        wanted = self.headers.get("Range")
        self.server.asked.append((path, wanted))
        sent = self.headers.get("Authorization", "")
        if sent:
            self.server.tokens.append((path, sent))
        file = self.server.files.get(path)
        if file is None:
            return self.send_error(404)
        if file.statuses:
            return self._refuse(file, file.statuses.pop(0))
        if file.token and sent != f"Bearer {file.token}":
            return self.send_error(401)
        if file.redirect:
            self.send_response(302)
            self.send_header("Location", file.redirect)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        is_same = file.etag is not None and self.headers.get("If-Range") == file.etag
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and is_same else 0
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(file.content) - 1}/{len(file.content)}")
        if file.etag:
            self.send_header("ETag", file.etag)
        if not (file.hides_length or file.is_endless):
            self.send_header("Content-Length", str(len(file.content) - first))
        self.end_headers()
        end, file.cut = file.cut, None
        stall, file.stall = file.stall, None
        self.wfile.write(file.content[first : stall if end is None else end])
        if end is not None and file.on_cut:
            file.on_cut()
        if stall is not None:
            self.server.ends.wait()
        with suppress(ConnectionError):
            while file.is_endless:
                self.wfile.write(bytes(1 << 16))

    def _refuse(self, file: Served, status: int) -> None:
        self.send_response(status)
        if file.retry_after is not None:
            self.send_header("Retry-After", file.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def loopback_registry() -> Iterator[LoopbackRegistry]:
    """A running server."""
    server = LoopbackRegistry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.ends.set()
        server.shutdown()
        server.server_close()
        thread.join()


def put_firefox_model(registry: LoopbackRegistry, model: Path, **other: Any) -> str:
    """Serves a list of Mozilla's form with the model of `imported_families.firefox` in a folder, and nothing else; the
    list's address. `other`: more entries of the list."""
    weights = (model / "model.enfr.bin").read_bytes()
    entry = {
        "architecture": "tiny",
        "releaseStatus": "Release",
        "sourceLanguage": "en",
        "targetLanguage": "fr",
        "files": {
            "model": {
                "path": "models/model.enfr.bin.gz",
                "uncompressedSize": len(weights),
                "uncompressedHash": hashlib.sha256(weights).hexdigest(),
            },
            "vocab": {"path": "models/vocab.spm.gz"},
        },
        "metrics": {},
    }
    registry.files.clear()
    registry.asked.clear()
    registry.add(
        "db/models.json", json.dumps({"baseUrl": registry.url, "models": {"en-fr": [entry], **other}}).encode()
    )
    registry.add("models/model.enfr.bin.gz", gzip.compress(weights, mtime=0))
    registry.add("models/vocab.spm.gz", gzip.compress((model / "vocab.spm").read_bytes(), mtime=0))
    return f"{registry.url}/db/models.json"
