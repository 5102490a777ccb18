"""A service of two instances on one port, as real processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from servers import WAIT_S, becomes
from shared_fixtures import make_bundle

from app.http.api_keys import new_key

ROOT = Path(__file__).resolve().parents[2]
HELLO = {"text": "Hello.", "source": "en", "target": "fr"}


@dataclass
class Instances:
    """The service, its log so far, and the folder of its bundles."""

    process: subprocess.Popen[str]
    bundles: Path
    key: str
    admin: int
    lines: list[str] = field(default_factory=list)

    def read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)

    def logged(self, text: str) -> list[str]:
        return [line for line in list(self.lines) if text in line]

    @property
    def url(self) -> str:
        [port, *_] = re.findall(r"running on http://127\.0\.0\.1:(\d+)", "".join(self.logged("running on")))
        return f"http://127.0.0.1:{port}"

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {self.key}"}, timeout=WAIT_S)

    def post(self, path: str, body: object = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.post(self.url + path, json=body, headers=headers, timeout=WAIT_S)

    def series(self, name: str) -> dict[str, float]:
        """The value of `name` of each instance."""
        found = re.findall(rf'^{name}{{instance="(\d)"[^}}]*}} (\S+)$', self.get("/metrics").text, re.M)
        return {number: float(value) for number, value in found}

    def processes(self) -> dict[int, int]:
        """The process of each instance, by number. One that is being replaced shows the old or the new one."""
        found = {}
        for child in children(self.process.pid):
            with suppress(OSError):  # it has just ended
                for number in re.findall(r'"number":(\d)', Path(f"/proc/{child}/cmdline").read_text()):
                    found[int(number)] = child
        return found

    def all_work(self) -> bool:
        return self.series("interlinear_workers") == {"0": 1, "1": 1}


def children(process: int) -> list[int]:
    with suppress(OSError):
        return [
            int(child)
            for file in Path(f"/proc/{process}/task").glob("*/children")
            for child in file.read_text().split()
        ]
    return []


@contextmanager
def serving_instances(
    folder: Path, command: Sequence[str] = ("-m", "app", "serve"), drain_ms: int = 0, translation_memory: str = ""
) -> Iterator[Instances]:
    """Starts the service, and stops it if it still runs. `command`: arguments for Python."""
    make_bundle(folder / "bundles" / "en-fr")
    key, line = new_key("operator")
    (folder / "keys").write_text(f"{line} admin\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        admin = listener.getsockname()[1]
    settings = {
        "BUNDLES": folder / "bundles", "INSTANCES": 2, "WORKERS": 2, "PRECISION": "int8", "ISA": "generic", "PORT": 0,
        "ADMIN_PORT": admin, "API_KEYS_FILE": folder / "keys", "DEADLINE_MS": 600_000,
        "MAX_WAIT_MS": 600_000, "DRAIN_MS": drain_ms,
    }  # fmt: skip
    if translation_memory:
        settings["TRANSLATION_MEMORY"] = translation_memory
    environ = {**os.environ, **{f"INTERLINEAR_{name}": str(value) for name, value in settings.items()}}
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        made = Instances(process, folder / "bundles", key, admin)
        reader = threading.Thread(target=made.read)
        reader.start()
        try:
            assert becomes(lambda: len(made.logged("running on")) == 2 or process.poll() is not None)
            assert becomes(made.all_work)
            yield made
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # whatever hangs
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT_S)
            reader.join()
