"""`interlinear doctor`: each fault is named, with what to do, and decides the exit status."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest
from store_server import StoreServer

from app.doctor import machine, report
from app.doctor.findings import Finding, Level
from app.doctor.report import examine, exit_status
from app.main import create_app
from app.services.startup import load_catalogue
from app.settings import Settings
from benchmarks.ports import free_port
from model.int8.isa import KernelsUnavailable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
GOOD = ROOT / "bundles/en-fr"


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bundle and a free port."""
    for name in [name for name in os.environ if name.startswith("INTERLINEAR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTERLINEAR_BUNDLES", str(GOOD))
    monkeypatch.setenv("INTERLINEAR_PORT", str(free_port()))
    monkeypatch.setenv("INTERLINEAR_DEVICE", "cpu")


def found(subject: str) -> list[tuple[Level, str]]:
    """The findings on one subject."""
    return [(finding.level, finding.text) for finding in examine(os.environ, create_app) if finding.subject == subject]


def errors(subject: str) -> list[str]:
    """The errors, which all have to be on one subject."""
    findings = list(examine(os.environ, create_app))
    wrong = [finding for finding in findings if finding.level is Level.ERROR]
    assert exit_status(findings) == bool(wrong)
    assert {finding.subject for finding in wrong} <= {subject}
    return [finding.text for finding in wrong]


def test_machine_where_all_is_right_exits_with_0_and_has_a_line_for_each_subject() -> None:
    done = subprocess.run([sys.executable, "-m", "app", "doctor"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert all(line.split()[0] in ("ok", "warning") for line in lines)
    subjects = "version settings processor keys limits clock disk port bundles engine memory"
    assert list(dict.fromkeys(line.split()[1] for line in lines)) == subjects.split()


def test_command_exits_with_1_where_serve_would() -> None:
    environ = {**os.environ, "INTERLINEAR_BUNDLES": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "app", "doctor"], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "error    bundles    there is no folder /nowhere: train one" in done.stdout
    assert done.stderr.startswith("errors: 1, ")


def test_misspelt_and_wrong_settings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_WORKRES", "2")
    assert (Level.WARNING, "INTERLINEAR_WORKRES is not a setting") in [
        (level, text[: len("INTERLINEAR_WORKRES is not a setting")]) for level, text in found("settings")
    ]
    monkeypatch.setenv("INTERLINEAR_WORKERS", "two")
    [text] = errors("settings")
    assert text.startswith("INTERLINEAR_WORKERS=two: ")


def test_without_kernels_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise KernelsUnavailable("there is no C compiler")

    monkeypatch.setattr(report, "library", missing)
    [(level, text), _] = found("processor")
    assert level is Level.WARNING
    assert "there is no C compiler" in text
    assert "install a C compiler" in text
    monkeypatch.setenv("INTERLINEAR_PRECISION", "int8")
    assert len(errors("processor")) == 1


def test_more_workers_than_cores_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "usable_cores", lambda: 2)
    monkeypatch.setenv("INTERLINEAR_WORKERS", "5")
    assert found("processor")[0] == (
        Level.WARNING,
        "5 workers share 2 cores: no more than one a core is faster",
    )


def test_each_broken_bundle_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(GOOD, tmp_path / "good")
    for name in ("one", "two"):
        shutil.copytree(GOOD, tmp_path / name)
        with (tmp_path / name / "config.json").open("a") as config:
            config.write(" ")
    monkeypatch.setenv("INTERLINEAR_BUNDLES", str(tmp_path))
    texts = errors("bundles")
    assert [text.split(":")[0] for text in texts] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert all("config.json does not match its checksum" in text for text in texts)


def test_bundle_that_gives_other_results_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(GOOD, tmp_path / "bundle")
    file = tmp_path / "bundle/config.json"
    config = json.loads(file.read_text())
    config["samples"][0]["target_ids"] = config["samples"][1]["target_ids"]
    file.write_text(json.dumps(config))
    sums = tmp_path / "bundle/SHA256SUMS"
    lines = [line for line in sums.read_text().splitlines() if not line.endswith("config.json")]
    sums.write_text("\n".join([*lines, f"{hashlib.sha256(file.read_bytes()).hexdigest()}  config.json"]) + "\n")
    monkeypatch.setenv("INTERLINEAR_BUNDLES", str(tmp_path / "bundle"))
    assert len(errors("engine")) == 1


def test_what_serve_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLINEAR_GLOSSARIES", str(tmp_path / "none"))
    assert len(errors("engine")) == 1


def test_port_of_another_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.doctor.report.TIMEOUT_S", 0.1)  # it never answers
    with socket.create_server(("127.0.0.1", int(os.environ["INTERLINEAR_PORT"]))):
        [text] = errors("port")
    assert "it is already in use" in text


class Answers(BaseHTTPRequestHandler):
    status, body = 200, b'{"status":"ready","models":[]}'

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answers]]:
    """What answers at the port."""

    class Handler(Answers):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("INTERLINEAR_PORT", str(server.server_port))
    yield Handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_port_of_a_running_service_is_right_if_it_is_ready(service: type[Answers]) -> None:
    [(level, text)] = found("port")
    assert level is Level.OK
    assert "is ready" in text
    service.status = 503
    assert "is not ready (503)" in errors("port")[0]
    service.status, service.body = 200, b"<html>"
    assert "it is already in use" in errors("port")[0]


def test_service_open_to_others_without_keys_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [level for level, _ in found("keys")] == [Level.OK]
    monkeypatch.setenv("INTERLINEAR_HOST", "0.0.0.0")
    assert [level for level, _ in found("keys")] == [Level.WARNING]
    keys = tmp_path / "keys.txt"
    keys.write_text(f"alice sha256:{'0' * 64}\n")
    keys.chmod(0o644)
    monkeypatch.setenv("INTERLINEAR_API_KEYS_FILE", str(keys))
    assert found("keys") == [(Level.OK, f"1 in {keys}")]
    keys.chmod(0o666)
    assert found("keys")[1] == (Level.WARNING, f"everybody can add keys: chmod o-w {keys}")


def test_wrong_keys_file_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INTERLINEAR_API_KEYS_FILE", str(tmp_path / "none"))
    assert any(level is Level.ERROR for level, _ in found("keys"))


def test_forged_addresses_and_shared_rates_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("proxies") == []
    monkeypatch.setenv("INTERLINEAR_RATE_REQUESTS", "600/minute")
    assert "share one rate" in found("proxies")[0][1]
    monkeypatch.setenv("INTERLINEAR_TRUSTED_PROXIES", "*")
    assert "forge its address" in found("proxies")[0][1]


def test_store_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with StoreServer(tmp_path) as store:
        monkeypatch.setenv("INTERLINEAR_STORE", store.url)
        [(level, text)] = found("store")
        assert level is Level.OK
        assert text.startswith(f"{store.url} answers")
    monkeypatch.setenv("INTERLINEAR_STORE", store.url.replace("//", "//user:secret@"))
    [text] = errors("store")
    assert "does not answer" in text
    assert "secret" not in text


def test_few_file_descriptors_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    [(level, text)] = found("limits")
    assert level is Level.WARNING
    assert "ulimit -n 4096" in text


def test_clock_before_the_installation_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert "1970-01-01" in errors("clock")[0]


@pytest.mark.parametrize(("status", "level"), [(0, Level.OK), (5, Level.WARNING), (-1, Level.OK)])
def test_kernel_says_whether_the_clock_is_synchronised(
    monkeypatch: pytest.MonkeyPatch, status: int, level: Level
) -> None:
    monkeypatch.setattr(ctypes.CDLL, "__getattr__", lambda *_: lambda *_: status)
    assert [finding.level for finding in machine.clock()] == [level]


def test_folders_that_cannot_be_written_and_full_disks_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("INTERLINEAR_TRANSLATION_MEMORY", str(tmp_path / "memory.sqlite"))
    monkeypatch.setattr(os, "access", lambda folder, _: folder != tmp_path)
    texts = [text for level, text in found("disk") if level is Level.ERROR]
    assert [text.split(" cannot")[0] for text in texts] == [
        "the cache folder (XDG_CACHE_HOME)",
        "the folder of the translation memory",
    ]
    monkeypatch.setattr(machine, "MIN_FREE_BYTES", 1 << 60)
    assert found("disk")[-1][0] is Level.WARNING


def test_too_little_memory_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "available_memory", lambda: 10_000_000)
    [(level, text)] = found("memory")
    assert level is Level.WARNING
    assert "10 MB are free" in text


def test_engine_on_a_gpu_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("gpu engine") == []
    monkeypatch.setenv("INTERLINEAR_GPU_ENGINE", "triton")
    [(level, text)] = found("gpu engine")
    assert (level, text) == (Level.WARNING, "INTERLINEAR_GPU_ENGINE=triton has no effect, since no GPU decodes")

    monkeypatch.setattr(report, "device_of", lambda settings: "cuda")
    catalogue = load_catalogue(Settings(bundles=(GOOD,)))
    [bundle] = catalogue

    def texts(wanted: Literal["graph", "triton"], serves: str, missing: str | None = None) -> list[str]:
        monkeypatch.setattr(report, "missing_support", lambda architecture: missing)
        settings = Settings(bundles=(GOOD,), gpu_engine=wanted)
        return [finding.text for finding in report.gpu_engine_findings(settings, catalogue, {bundle.spec.name: serves})]

    name = bundle.name
    assert texts("graph", "graph") == ["graph, the default; triton has never run on a GPU"]
    assert texts("triton", "triton") == [f"triton for {name}, which has never run on a GPU"]
    assert texts("triton", "graph", "Triton is not installed") == [
        f"graph for {name} in place of triton: Triton is not installed"
    ]
    assert texts("triton", "graph") == [
        f"graph for {name} in place of triton: it failed its self-test, as the log says"
    ]


def test_line_has_level_subject_and_text() -> None:
    assert str(Finding(Level.WARNING, "clock", "It is late.")) == "warning  clock      It is late."
