"""The memory of a process, with shared pages divided among the processes that share them."""

from __future__ import annotations

import math
from pathlib import Path


def proportional_set_size(pid: int, processes: Path = Path("/proc")) -> float:
    """The proportional set size of process `pid` in bytes; NaN if it has ended or may not be read.

    See smaps_rollup in proc(5). Unlike the resident set size, its sum over all workers counts shared weights once.
    """
    try:
        lines = (processes / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return math.nan
    return next((int(line.split()[1]) * 1024.0 for line in lines if line.startswith("Pss:")), math.nan)
