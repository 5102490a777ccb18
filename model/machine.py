"""The machine's resources for this process: cores, GPU, cache folder, the C library's memory; and its own addresses.

Does not import PyTorch.
"""

from __future__ import annotations

import ctypes
import importlib.util
import ipaddress
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8  # <malloc.h>
_LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes; glibc refuses more

PRECISIONS = {"cpu": ("float32", "bfloat16", "int8"), "cuda": ("float32", "bfloat16", "float16")}
"""Precisions by kind of device."""


def _has_gpu_driver() -> bool:
    if Path("/dev/kfd").exists():  # AMD's
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@cache
def has_gpu(has_driver: Callable[[], bool] = _has_gpu_driver) -> bool:
    """Whether PyTorch can compute on a GPU here.

    Only PyTorch's CUDA can tell. If there is a driver, another process asks it.
    """
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import model.machine as m; sys.exit(not m.pytorch_has_gpu())"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).resolve().parent.parent)]
    return has_driver() and subprocess.run(command, check=False).returncode == 0


def pytorch_has_gpu() -> bool:
    """Asks the CUDA runtime of PyTorch's build for devices, as `torch.cuda.is_available` does, without PyTorch, which
    would take seconds to load; with it if the build is AMD's, or its runtime is not found."""
    spec = importlib.util.find_spec("torch")
    assert spec
    assert spec.origin
    folder = Path(spec.origin).parent
    build, count = runpy.run_path(str(folder / "version.py")), ctypes.c_int()
    if not (build.get("cuda") or build.get("hip")):
        return False
    runtimes = [*folder.parent.glob("nvidia/*/lib/libcudart.so.*"), *folder.glob("lib/libcudart*.so*")]
    if build.get("cuda") and len(runtimes) == 1:
        return not ctypes.CDLL(str(runtimes[0])).cudaGetDeviceCount(ctypes.byref(count)) and count.value > 0
    import torch

    return torch.cuda.is_available()


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """The number of cores that this process may use all the time: at least 1, fractions of a quota rounded down.

    A quota, such as that of `docker run --cpus 2`, does not change the affinity, which includes all cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(_quota(cgroups) or cores)))


def _quota(cgroups: Path) -> float | None:
    """The quota in cores, from version 2 or 1 of the kernel's control groups; None if there is none."""
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota = (cgroups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu" / "cpu.cfs_period_us").read_text().strip()
    except (OSError, ValueError):
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def use_one_blas_thread() -> None:
    """Tells NumPy, unless the user has, to multiply matrices in one thread, here and in processes that this one starts.

    By default its OpenBLAS starts a thread per core on import, which takes as long again as the import. Must be called
    before the import.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def cache_folder() -> Path:
    """The folder for data that can be recreated: `interlinear` in the user's cache folder (XDG Base Directory
    Specification). Raises RuntimeError if the user has none."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "interlinear")


def keep_freed_memory() -> bool:
    """Tells glibc to reuse large buffers instead of returning them to the system; True if it did.

    PyTorch on a CPU allocates the same large buffers at every step. By default glibc maps and unmaps each of them, and
    the page faults cost about as much as the arithmetic. Memory that is free now is returned first, so that memory
    which only loading needed is not kept. Does nothing on other C libraries.
    """
    if not give_freed_memory_back():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {_M_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD, _M_TRIM_THRESHOLD: 2**31 - 1, _M_TOP_PAD: 64 << 20}
    accepted = [mallopt(name, value) == 1 for name, value in settings.items()]
    return all(accepted)


def share_heaps(max_heaps: int = 2) -> bool:
    """Tells glibc to serve all threads from at most `max_heaps` heaps; True if it did.

    By default each thread gets its own heap, whose freed memory other threads cannot use, so that a pool of threads
    keeps the peak of each. Must be called before threads start. Does nothing on other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, max_heaps) == 1


def give_freed_memory_back() -> bool:
    """Tells glibc to return free pages between pages in use to the system, which it never does by itself; True if it
    did.

    Takes about 0.1 s per 100 MB. Does nothing on other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return False
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is None:
        return False
    malloc_trim(0)
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`, a name or an address."""
    if host == "localhost":
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
