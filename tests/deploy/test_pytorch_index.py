"""deploy/pytorch_index.py: which build of PyTorch pip takes on this machine."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ports import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/pytorch_index.py"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class Index(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/cpu/torch/" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    """The address of an index that has PyTorch."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/cpu"
    server.shutdown()
    thread.join()
    server.server_close()


def chosen(environ: dict[str, str], cpu_index: str, devices: tuple[Path, ...] = (), platform: str = "linux") -> str:
    """What the script chooses on a machine with the device files `devices`, with PyTorch's CPU index at `cpu_index`."""
    names: dict[str, Any] = runpy.run_path(str(SCRIPT))
    function = names["index_url"]
    function.__globals__.update(CPU_INDEX=cpu_index, NVIDIA_DEVICES=devices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "platform", platform)
        url: str = function(environ)
        return url


def test_machine_without_nvidia_device_takes_the_cpu_build(index: str, tmp_path: Path) -> None:
    assert chosen({}, index, (tmp_path / "nvidiactl",)) == index


def test_machine_with_nvidia_device_takes_the_default_build(index: str, tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert chosen({}, index, (tmp_path / "nvidiactl",)) == ""


def test_other_systems_take_the_default_build_which_has_no_cuda(index: str) -> None:
    assert chosen({}, index, platform="darwin") == ""


@pytest.mark.parametrize("url", ["", "file:///wheels", "https://user:secret@example.invalid/simple"])
def test_variable_decides_without_a_look_at_the_network(url: str, index: str) -> None:
    assert chosen({"TORCH_INDEX_URL": url}, index) == url


@pytest.mark.parametrize("environ", [{}, {"TORCH_INDEX_URL": "ours"}])
def test_index_that_cannot_be_reached_is_left_out_with_a_word(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where compose has asked for it."""
    url = f"http://127.0.0.1:{free_port()}/cpu"
    assert chosen(dict.fromkeys(environ, url), url) == ""
    said = capsys.readouterr().err
    assert said.startswith(f"{url} cannot be reached (")
    assert "default build" in said


def test_index_without_pytorch_is_left_out(index: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen({}, index.replace("/cpu", "/gone")) == ""
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize(("url", "options"), [("", ""), ("file:///wheels", "--extra-index-url file:///wheels\n")])
def test_script_prints_the_option_of_pip(url: str, options: str) -> None:
    command = [sys.executable, "-I", "-S", str(SCRIPT)]
    done = subprocess.run(command, env={**os.environ, "TORCH_INDEX_URL": url}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, options, "")


def test_make_and_both_containers_ask_the_script() -> None:
    makefile = subprocess.run(
        ["make", "--dry-run", "--always-make", ".venv/.serving"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "pip install -qq $(.venv/bin/python deploy/pytorch_index.py) --editable ." in makefile
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "$(python pytorch_index.py) -r requirements.txt" in dockerfile
    assert "ARG TORCH_INDEX_URL=\n" in dockerfile  # the default build, unless compose says otherwise
    assert f"TORCH_INDEX_URL: ${{TORCH_INDEX_URL-{CPU_INDEX}}}" in (ROOT / "docker-compose.yml").read_text()
    assert runpy.run_path(str(SCRIPT))["CPU_INDEX"] == CPU_INDEX
