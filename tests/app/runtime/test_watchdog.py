"""After SIGTERM nothing of the service goes on for longer than the limit, whatever its processes do."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from servers import WAIT_S, becomes

from app.runtime.watchdog import Watchdog
from benchmarks.balancer import family
from benchmarks.soak import is_worker

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
CUSTOMIZED = """
import ctypes, signal, sys, threading
import app.runtime.watchdog as watchdog
watchdog.MAX_STOP_S = 1.0

def hang():
    print("a thread hangs", file=sys.stderr, flush=True)
    {work}

signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=hang).start())
"""
"""What every Python process of the service runs at its start."""
IN_PYTHON, IN_C = "while True: pass", "ctypes.PyDLL(None).sleep(1_000_000)  # it keeps the interpreter"


@dataclass
class Service:
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)

    def read(self) -> None:
        assert self.process.stderr
        self.log.extend(iter(self.process.stderr.readline, ""))

    def logged(self, text: str) -> bool:
        return any(text in line for line in self.log)

    @property
    def url(self) -> str:
        found = re.search(r"running on (http://127\.0\.0\.1:\d+)", "".join(self.log))
        assert found
        return found[1]

    def hang(self, process: int) -> None:
        os.kill(process, signal.SIGUSR1)
        assert becomes(lambda: self.logged("a thread hangs"))

    def ends(self, signalled: Sequence[int] = (), number: int = signal.SIGTERM) -> bool:
        """Whether all processes end after a signal, which goes to these; by default to the first one."""
        processes = family(self.process.pid)
        for each in signalled or [self.process.pid]:
            os.kill(each, number)
        self.process.wait(WAIT_S)
        return len(processes) > 2 and becomes(lambda: not any(map(_runs, processes)))


def _runs(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


@contextmanager
def service(bundles: Path, folder: Path, work: str = "pass", **settings: str) -> Iterator[Service]:
    (folder / "sitecustomize.py").write_text(CUSTOMIZED.replace("{work}", work))
    values = {"WORKERS": "1", "PRECISION": "int8", "ISA": "generic", "PORT": "0", "BUNDLES": str(bundles), **settings}
    values |= {"MAX_WAIT_MS": "600000", "DEADLINE_MS": "600000"}
    environ = {**os.environ, **{f"INTERLINEAR_{name}": value for name, value in values.items()}}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "app", "serve"]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True) as process:
        made = Service(process)
        reader = threading.Thread(target=made.read)
        reader.start()
        try:
            assert becomes(lambda: made.logged("worker 0 is ready") or process.poll() is not None)
            yield made
        finally:
            for each in family(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            reader.join()


def test_thread_that_does_not_end_does_not_delay_the_stop_by_an_interrupt(bundle_folder: Path, tmp_path: Path) -> None:
    with service(bundle_folder, tmp_path, IN_PYTHON) as running:
        running.hang(running.process.pid)
        assert running.ends(number=signal.SIGINT)
    assert running.process.returncode == 0
    assert running.logged("Finished server process")
    assert not running.logged("killed")


def test_signal_at_its_start_does_not_end_the_watchdog() -> None:
    watchdog = Watchdog(60)
    process = watchdog._process
    os.kill(process.pid, signal.SIGTERM)
    watchdog._end.close()
    assert process.wait(WAIT_S) == 0


def test_instance_whose_interpreter_is_held_is_killed_with_its_workers_though_its_watchdog_is_signalled_too(
    bundle_folder: Path, tmp_path: Path
) -> None:
    with service(bundle_folder, tmp_path, IN_C, INSTANCES="2", WORKERS="2") as running:
        assert becomes(lambda: len([line for line in running.log if "is ready" in line]) == 2)
        processes = family(running.process.pid)
        assert len(processes) == 1 + 2 * 3
        [instance, *_] = [each for each in processes if b"instance" in _command(each)]
        watchdogs = [each for each in processes if b"watchdog" in _command(each)]
        assert len(watchdogs) == 2
        running.hang(instance)
        assert running.ends([running.process.pid, *watchdogs])
    assert any(
        json.loads(line)["message"] == "did not end within 1 s: killed" for line in running.log if line[0] == "{"
    )


def _command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def test_worker_that_does_not_end_its_step_is_killed(bundle_folder: Path, tmp_path: Path) -> None:
    with service(bundle_folder, tmp_path) as running:
        assert httpx.post(f"{running.url}/translate", json=HELLO, timeout=WAIT_S).status_code == 200
        [worker] = filter(is_worker, family(running.process.pid))
        os.kill(worker, signal.SIGSTOP)
        asking = threading.Thread(target=_ask, args=(running.url,))
        asking.start()
        assert becomes(lambda: _accepted(running.url))
        assert running.ends()
        asking.join()


def _ask(url: str) -> None:
    with suppress(httpx.TransportError):  # the service is killed meanwhile
        httpx.post(f"{url}/translate", json={**HELLO, "text": "A house."}, timeout=WAIT_S)


def _accepted(url: str) -> bool:
    metrics = httpx.get(f"{url}/metrics", timeout=WAIT_S).text
    return re.search(r'^interlinear_cache_sentences_total{.*"miss"} 2', metrics, re.M) is not None
