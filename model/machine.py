"""How many cores this process may use. Knows affinity and, on Linux, the quota of a container."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


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
