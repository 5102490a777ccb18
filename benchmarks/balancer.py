"""Services on this machine behind HAProxy with the configuration of deploy/balancer, and what they do to each other:
started, stopped, killed, hung."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.cores import pinned
from benchmarks.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "deploy/balancer/haproxy.cfg"
READY_TIMEOUT_S = 600.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Instance:
    """A service with its settings, on a port that it keeps when it is started again."""

    def __init__(self, bundles: Path, settings: dict[str, str], core: int | None = None) -> None:
        """`core`: where all its processes run; None for any."""
        self.port = free_port()
        self._core = core
        named = {"BUNDLES": str(bundles.resolve()), "PORT": str(self.port), **settings}
        self._environ = {**os.environ, **{f"INTERLINEAR_{name}": value for name, value in named.items()}}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was never started"
        return self._process

    def start(self) -> None:
        command = [sys.executable, "-m", "app", "serve"]
        with pinned(self._core):
            self._process = subprocess.Popen(command, cwd=ROOT, env=self._environ, stderr=subprocess.DEVNULL)

    def is_ready(self) -> bool:
        return is_ready(self.port)

    def wait_until_ready(self) -> None:
        """Raises RuntimeError if it ends instead, and TimeoutError."""
        wait_for(lambda: self.is_ready() or self.process.poll() is not None, "the service is not ready")
        if self.process.poll() is not None:
            raise RuntimeError(f"the service has ended with status {self.process.returncode}")

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and waits until the process has ended. Returns its status."""
        self.process.send_signal(number)
        return self.process.wait()

    def serves(self, sums: str) -> bool:
        """Whether it serves a bundle with these checksums, and so does every process that shares its port."""
        for _ in range(10):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/models", timeout=READY_TIMEOUT_S) as response:
                if not any(model["checksum"] in sums for model in json.load(response)):
                    return False
        return True

    def children(self) -> list[int]:
        """Process ids of its workers, or of its instances."""
        return children(self.process.pid)

    def processor_s(self) -> float:
        """Processor seconds that its processes have spent."""
        return sum(processor_s(number) for number in family(self.process.pid))


def is_ready(port: int) -> bool:
    """Whether /ready of a service, or of a balancer in front of services, is 200."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
    except OSError:  # which HTTPError is
        return False
    return True


def wait_for(condition: Callable[[], bool], failure: str, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Waits until `condition()` is true. Raises TimeoutError with the message `failure`."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(failure)
        time.sleep(0.05)


def children(process: int) -> list[int]:
    """Process ids of the children of all threads of a process; none if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{process}/task").glob("*/children"):
            found += map(int, file.read_text().split())
    return found


def family(process: int) -> list[int]:
    """A process and its descendants."""
    return [process, *(member for child in children(process) for member in family(child))]


def processor_s(process: int) -> float:
    """Processor seconds that a process has spent, without its children; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


class Balancer:
    """HAProxy, with the configuration that compose and Kubernetes use."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, stats_port: int) -> None:
        self.process, self.port, self._stats_port = process, port, stats_port

    def processor_s(self) -> float:
        return processor_s(self.process.pid)

    def wait_until_up(self, instances: int) -> None:
        """Waits until it sends requests to so many instances. Raises TimeoutError."""
        wait_for(lambda: self.instances_up() == instances, "the balancer does not find all instances")

    def instances_up(self) -> int:
        """The number of instances that it sends requests to."""
        with socket.create_connection(("127.0.0.1", self._stats_port), timeout=READY_TIMEOUT_S) as connection:
            connection.sendall(b"show stat\n")
            with connection.makefile() as answer:
                rows = list(csv.DictReader(answer))
        servers = [row for row in rows if row["# pxname"] == "translation" and row["svname"] != "BACKEND"]
        return sum(row["status"].startswith("UP") for row in servers)


@contextlib.contextmanager
def balanced(folder: Path, ports: Sequence[int]) -> Iterator[Balancer]:
    """HAProxy before servers on these ports, in place of the addresses that it would look up; accepting connections.

    `folder`: for the configuration. Raises RuntimeError if HAProxy refuses it. HAProxy checks each server by itself:
    an answer does not mean that it has found them all, see `Balancer.wait_until_up`.
    """
    servers = "\n".join(f"    server instance{number} 127.0.0.1:{port}" for number, port in enumerate(ports))
    text, replaced = re.subn(r"^ +server-template .*$", servers, CONFIGURATION.read_text(), flags=re.M)
    assert replaced == 1
    (folder / "haproxy.cfg").write_text(text)
    port, stats_port = free_port(), free_port()
    (folder / "stats.cfg").write_text(f"global\n    stats socket ipv4@127.0.0.1:{stats_port} level user\n")
    command = ["haproxy", "-db", "-f", str(folder / "haproxy.cfg"), "-f", str(folder / "stats.cfg")]
    environ = {**os.environ, "LISTEN": f"127.0.0.1:{port}"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(lambda: process.poll() is not None or _accepts(port), "HAProxy accepts no connection")
            if process.poll() is not None:
                raise RuntimeError(f"HAProxy has ended with status {process.returncode}")
            yield Balancer(process, port, stats_port)
        finally:
            process.kill()


def _accepts(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
