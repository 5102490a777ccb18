"""What this machine has: cores that this process may use, a GPU, what it can compute with. Does without PyTorch."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")

PRECISIONS = {"cpu": ("float32", "bfloat16", "int8"), "cuda": ("float32", "bfloat16", "float16")}
"""What is offered by kind of device."""


@cache
def has_gpu() -> bool:
    """Whether PyTorch can compute on a GPU here.

    Only PyTorch knows, and to load it takes 200 MB and more: where there is a driver, another process is asked.
    """
    asked = [sys.executable, "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())"]
    return _has_gpu_driver() and subprocess.run(asked, check=False).returncode == 0


def _has_gpu_driver() -> bool:
    if Path("/dev/kfd").exists():  # AMD's
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Cores that may be kept busy all the time: at least 1, and what a quota leaves of one core is not counted.

    A quota, such as that of `docker run --cpus 2`, leaves the affinity alone: by that, a container may use all cores.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(_quota(cgroups) or cores)))


def _quota(cgroups: Path) -> float | None:
    """In cores, of version 2 or 1 of the kernel's control groups; None if there is none."""
    try:
        if (cgroups / "cpu.max").exists():
            quota, period = (cgroups / "cpu.max").read_text().split()
        else:
            quota = (cgroups / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroups / "cpu" / "cpu.cfs_period_us").read_text().strip()
    except (OSError, ValueError):
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)
