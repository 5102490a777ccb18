"""model/machine.py: usable cores: by affinity, and by a container's quota."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from model.machine import cache_folder, has_gpu, pytorch_has_gpu, usable_cores
from training.process_map import process_count


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "300000 100000\n"}, 3),
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "9900000 100000\n"}, 8),
        ({"cpu.max": "nonsense"}, 8),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
    ],
)
def test_containers_quota_limits_the_cores(tmp_path: Path, files: dict[str, str], cores: int) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert usable_cores(tmp_path) == cores


def test_without_affinity_all_cores_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_cores(tmp_path) == 5


@pytest.mark.slow
def test_gpu_detection_asks_pytorch() -> None:
    assert has_gpu(lambda: True) == torch.cuda.is_available()


RUNTIME = """
int cudaGetDeviceCount(int *count) { *count = COUNT; return ERROR; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, which CUDA's machines have")
@pytest.mark.parametrize(
    ("build", "devices", "error", "has_one"),
    [("'13.0'", 2, 0, True), ("'13.0'", 0, 0, False), ("'13.0'", 2, 35, False), ("None", 2, 0, False)],
)
def test_gpu_detection_asks_pytorchs_cuda_and_loads_no_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str, devices: int, error: int, has_one: bool
) -> None:
    """`error`: as of a driver that is too old for it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text(f"cuda = {build}\nhip = None\n")
    (tmp_path / "torch/__init__.py").write_text("raise AssertionError('PyTorch was loaded')")
    library = tmp_path / "nvidia/cuda/lib/libcudart.so.13"
    library.parent.mkdir(parents=True)
    (tmp_path / "runtime.c").write_text(RUNTIME)
    values = [f"-DCOUNT={devices}", f"-DERROR={error}"]
    subprocess.run(["cc", "-shared", "-fPIC", *values, "-o", library, tmp_path / "runtime.c"], check=True)
    found = SimpleNamespace(origin=str(tmp_path / "torch/__init__.py"))
    monkeypatch.setattr("model.machine.importlib.util.find_spec", lambda name: found)
    assert pytorch_has_gpu() is has_one


def test_without_a_driver_pytorch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **options: pytest.fail("PyTorch was asked"))
    assert not has_gpu(lambda: False)


def test_quota_limits_training_processes_too(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    assert process_count(None, much=True, cores=lambda: usable_cores(tmp_path)) == 2


def test_cache_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "interlinear"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "interlinear"


HEAPS = """
import ctypes, sys, tempfile, threading
from model.machine import share_heaps

if sys.argv[1] == "shared":
    assert share_heaps()
all_are_here = threading.Barrier(7)

def allocate() -> None:
    kept = [bytearray(5_000) for _ in range(50)]
    all_are_here.wait()

threads = [threading.Thread(target=allocate) for _ in range(7)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    stream = libc.fopen(file.name.encode(), b"w")
    assert libc.malloc_info(0, ctypes.c_void_p(stream)) == 0
    libc.fclose(ctypes.c_void_p(stream))
    print(open(file.name).read().count("<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has heaps for threads")
def test_at_most_two_malloc_arenas_are_used() -> None:
    def heaps(how: str) -> int:
        return int(subprocess.run([sys.executable, "-c", HEAPS, how], check=True, capture_output=True).stdout)

    assert heaps("shared") <= 2 < heaps("each its own")
