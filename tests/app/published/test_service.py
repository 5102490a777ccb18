"""app/published/ and training/importing/: a real service and the real importer, with a registry on loopback; killed,
stopped and started in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from imported_families import firefox
from loopback_registry import LoopbackRegistry, loopback_registry, put_firefox_model
from servers import WAIT_S
from shared_fixtures import make_bundle

from app.published.folder import ModelsFolder
from app.published.jobs import InstallJob, State, job_id
from benchmarks.ports import free_port
from model.published import ModelName

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
EN_FR = ModelName("firefox", "en-fr")
QUICK_INSTALLS = Path(__file__).parents[2] / "quick_installs"
STATES: tuple[State, ...] = get_args(State)
KILLED_IN: tuple[State, ...] = ("queued", "downloading", "converting", "checking", "loading")
"""The states of an installation, from its start to the new model, that write to the folder of models."""


class Running:
    """A service whose settings name a model of the registry, as a process."""

    def __init__(self, bundles: Path, models: Path, registry: str, **settings: str) -> None:
        self.models, self.folder, self.began_s = models, ModelsFolder(models), time.monotonic()
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        given = {"BUNDLES": bundles, "MODELS": EN_FR, "MODELS_DIR": models, "REGISTRIES": f"firefox={registry}"}
        given |= {"PORT": port, "DEVICE": "cpu", "WORKERS": 1, **settings}
        environ = {**os.environ, **{f"INTERLINEAR_{name}": str(value) for name, value in given.items()}}
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(QUICK_INSTALLS), environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app", "serve"], cwd=ROOT, env=environ, stderr=subprocess.DEVNULL
        )

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    @property
    def job(self) -> InstallJob | None:
        return self.folder.job(job_id(EN_FR))

    def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            assert self.process.poll() is None and self.elapsed_s < WAIT_S, self.job
            time.sleep(0.01)

    def until_state(self, state: State) -> None:
        """Until its job is in this state, or in a later one."""
        self.until(lambda: self.job is not None and STATES.index(self.job.state) >= STATES.index(state))

    def until_installed(self) -> None:
        self.until(lambda: self.job is not None and self.job.state == "done")

    def names(self) -> list[str]:
        """The published models that serve."""
        try:
            answer = httpx.get(f"{self.url}/models", timeout=60)
        except httpx.HTTPError:
            return []
        return [model["installed"]["model"] for model in answer.json() if model["installed"]]

    def translate(self) -> int:
        body = {"text": "Hello.", "source": "en", "target": "fr"}
        return httpx.post(f"{self.url}/translate", json=body, timeout=60).status_code

    def importers(self) -> list[int]:
        """Processes that work for this folder of models."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            if b"training.importing" in words and str(self.folder.new).encode() in words:
                found.append(int(entry.parent.name))
        return found

    def kill(self) -> None:
        """And waits for the processes that it leaves."""
        self.process.kill()
        self.process.wait()
        limit_s = time.monotonic() + WAIT_S
        while self.importers():
            assert time.monotonic() < limit_s
            time.sleep(0.01)

    def stop(self) -> float:
        """Ends it with SIGTERM; the seconds that it takes."""
        began_s = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0
        return time.monotonic() - began_s


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("firefox") / "model"
    firefox(folder)
    return folder


@pytest.fixture
def registry(model: Path) -> Iterator[LoopbackRegistry]:
    with loopback_registry() as server:
        put_firefox_model(server, model)
        yield server


@pytest.fixture
def start(tmp_path: Path, registry: LoopbackRegistry) -> Iterator[Callable[..., Running]]:
    """Starts a service; all have the same bundles, and unless named another the same folder of models."""
    make_bundle(tmp_path / "bundles" / "en-fr")
    running = list[Running]()

    def start(models: str = "models", **settings: str) -> Running:
        running.append(Running(tmp_path / "bundles", tmp_path / models, f"{registry.url}/db/models.json", **settings))
        return running[-1]

    yield start
    for service in running:
        if service.process.poll() is None:
            service.kill()


def is_clean(models: Path) -> bool:
    """Whether the folder has the bundle, the job, the lock, and nothing else."""
    return sorted(path.name for path in models.iterdir()) == [".jobs", ".lock", "en-fr"] and [
        path.suffix for path in (models / ".jobs").iterdir()
    ] == [".json"]


def test_a_service_killed_at_any_point_finishes_at_its_next_start(start: Callable[..., Running]) -> None:
    states = []
    for state in KILLED_IN:
        models = f"models-{state}"
        killed = start(models)
        killed.until_state(state)
        killed.kill()
        assert killed.job
        states.append(killed.job.state)
        left = [path for path in killed.models.glob("*") if not path.name.startswith(".")]
        assert [path.name for path in left] in ([], ["en-fr"])
        again = start(models)
        again.until_installed()
        again.until(lambda: is_clean(again.models) and again.names() == ["firefox:en-fr@tiny"])  # noqa: B023
        assert again.translate() == 200
        again.kill()
    assert len(set(states)) > 2, states


def test_a_stop_in_the_middle_is_quick_and_the_next_start_downloads_only_what_is_missing(
    start: Callable[..., Running], registry: LoopbackRegistry
) -> None:
    first = start()
    first.until(lambda: first.job is not None and first.job.state == "converting")
    assert first.stop() < 20
    assert first.importers() == []
    asked = [path for path, _ in registry.asked if path.startswith("models/")]
    second = start()
    second.until_installed()
    assert second.translate() == 200
    assert [path for path, _ in registry.asked if path.startswith("models/")] == asked
    assert second.stop() < 20
    registry.asked.clear()
    third = start(MODELS_REQUIRED="true")
    third.until(lambda: third.names() == ["firefox:en-fr@tiny"])
    assert third.translate() == 200
    assert registry.asked == []


def test_two_services_with_one_folder_download_once(start: Callable[..., Running], registry: LoopbackRegistry) -> None:
    services = [start(), start()]
    for service in services:
        service.until(lambda: service.names() == ["firefox:en-fr@tiny"])  # noqa: B023
        assert service.translate() == 200
    assert len([path for path, _ in registry.asked if "model.enfr" in path]) == 1


def test_several_instances_install_once_and_all_serve_it(
    start: Callable[..., Running], registry: LoopbackRegistry
) -> None:
    service = start(INSTANCES="2", WORKERS="2")
    service.until_installed()
    models = set()
    for _ in range(40):  # each over a connection of its own, which either instance accepts
        body: dict[str, Any] = {"text": "Hello.", "source": "en", "target": "fr"}
        models.add(httpx.post(f"{service.url}/translate", json=body, timeout=60).json()["model"])
    assert len(models) == 1
    assert len([path for path, _ in registry.asked if "model.enfr" in path]) == 1
    service.stop()
