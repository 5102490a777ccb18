"""The servers compared, as processes pinned to one core that can be paused and resumed.

Starts and calls each; `benchmarks.load` generates the load.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cores import pinned
from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
CACHE_BYTES = os.environ.get("INTERLINEAR_CACHE_BYTES", "0")
CACHE = "off" if CACHE_BYTES == "0" else f"{CACHE_BYTES} bytes"
"""Cache of finished sentences in our service: off by default, so that decoding is measured."""


@dataclass(frozen=True)
class Contestant:
    """A server to measure: its label, and its command for a port."""

    label: str
    command: Callable[[int], list[str]]
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables that replace those of `Server`."""


def ours() -> Contestant:
    return Contestant("Interlinear", lambda port: [sys.executable, "-m", "app", "serve"])


def locked(model: Path) -> Contestant:
    words = [sys.executable, "-m", "benchmarks.peers.locked", str(model)]
    return Contestant("FastAPI, a lock, CTranslate2", lambda port: [*words, str(port)])


def batched(model: Path, size: int, timeout_s: float) -> Contestant:
    words = [sys.executable, "-m", "benchmarks.peers.batched", str(model)]
    label = f"LitServe, CTranslate2 (batches of {size}, {1000 * timeout_s:.0f} ms)"
    return Contestant(label, lambda port: [*words, str(port), str(size), str(timeout_s)])


def libretranslate(python: Path, model: Path, pair: tuple[str, str], beam_size: int) -> Contestant:
    """LibreTranslate in the environment of `python`. The service is greedy; its own beam is 4."""
    words = [str(python.absolute()), "-m", "benchmarks.peers.libretranslate", str(model), *pair]
    return Contestant(f"LibreTranslate (a beam of {beam_size})", lambda port: [*words, str(port), str(beam_size)])


def convert(bundle: Path, folder: Path) -> Path:
    """Converts the bundle to a CTranslate2 model."""
    words = ["export", "--to", "ctranslate2", "--bundle", str(bundle.resolve()), "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "training", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder


class ServerFailed(RuntimeError):
    """A server did not start, or stopped responding."""


class Server:
    """A contestant's processes, in their own process group."""

    def __init__(self, contestant: Contestant, bundles: Path, core: int | None, log: Path, workers: int) -> None:
        self.port = free_port()
        environ = {"INTERLINEAR_BUNDLES": str(bundles), "INTERLINEAR_PORT": str(self.port)}
        environ |= {"INTERLINEAR_WORKERS": str(workers)}
        environ |= {"INTERLINEAR_CACHE_BYTES": CACHE_BYTES, "INTERLINEAR_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
        environ = {**os.environ, **environ, **contestant.environ}
        self.contestant, self.log = contestant, log
        with pinned(core), log.open("wb") as output:
            self._process = subprocess.Popen(
                contestant.command(self.port),
                cwd=ROOT,
                env=environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def wait_until_ready(self, body: bytes, seconds: float = 600) -> None:
        """Raises ServerFailed."""
        until = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):  # which HTTPError is
                self.post(body)
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise ServerFailed(f"{self.contestant.label} does not answer; its last words:\n{self._last_words()}")
            time.sleep(0.1)

    def post(self, body: bytes) -> dict[str, Any]:
        """The answer. Raises OSError for anything but a 200."""
        address = f"http://127.0.0.1:{self.port}/translate"
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        return answer

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as response:
            return json.load(response)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Resumes the processes inside the context, and pauses them after it."""
        self.signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.signal(signal.SIGSTOP)

    def stop(self) -> None:
        """Ends every process of the group."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=20)
        self.signal(signal.SIGKILL)
        self._process.wait()

    def _last_words(self) -> str:
        return "".join(self.log.read_text(errors="replace").splitlines(keepends=True)[-20:])


@contextlib.contextmanager
def running(contestant: Contestant, bundle: Path, core: int | None, body: bytes, workers: int = 1) -> Iterator[Server]:
    """Starts a server with so many workers (0: one a core); yields it when it responds. Raises ServerFailed."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(contestant, bundle, core, Path(folder) / "log", workers)
        try:
            server.wait_until_ready(body)
            yield server
        finally:
            server.stop()
