"""What `interlinear doctor` looks at on the machine: limits, clock, disk and memory."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.doctor.findings import Finding, error, ok, warning
from app.runtime.memory_limit import memory_left
from app.settings import IN_STORE, Settings
from model.machine import cache_folder

MIN_DESCRIPTORS = 4096
"""Fewer file descriptors are fewer connections than a burst opens; see app/server/listener.py."""
MIN_FREE_BYTES = 200_000_000
"""For prepared weights, uploads and memories."""
_ADJTIMEX_BYTES, _TIME_ERROR = 256, 5  # <sys/timex.h>; the structure has 208 bytes
_CPUINFO, _MEMINFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")


def limits() -> Iterator[Finding]:
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors < MIN_DESCRIPTORS:
        yield warning(
            "limits", f"{descriptors} file descriptors: under a burst, clients wait: `ulimit -n {MIN_DESCRIPTORS}`"
        )
    else:
        yield ok("limits", f"{descriptors:,} file descriptors")


def clock() -> Iterator[Finding]:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < Path(__file__).stat().st_mtime:
        yield error("clock", f"{shown} is before this program was installed: set it; logs and leases depend on it")
    elif _is_synchronised() is False:
        yield warning("clock", f"{shown}, which nothing synchronises: start chrony or systemd-timesyncd")
    else:
        yield ok("clock", shown)


def _is_synchronised() -> bool | None:
    """What the kernel says; None where it does not."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    status: int = adjtimex(ctypes.create_string_buffer(_ADJTIMEX_BYTES)) if adjtimex else -1
    return None if status < 0 else status != _TIME_ERROR


def disk(settings: Settings) -> Iterator[Finding]:
    """The folders that are written to."""
    folders: dict[str, Callable[[], Path]] = {
        "the cache folder (XDG_CACHE_HOME)": cache_folder,
        "the folder of temporary files (TMPDIR)": lambda: Path(tempfile.gettempdir()),
    }
    memory = settings.translation_memory
    if memory and memory != IN_STORE:
        folders["the folder of the translation memory"] = Path(memory).absolute().parent.absolute
    if settings.glossary_store:
        folders["the folder of glossaries"] = settings.glossary_store.absolute
    free = []
    for name, find in folders.items():
        try:
            folder = find()
        except (OSError, RuntimeError) as fault:
            yield error("disk", f"there is no {name.removeprefix('the ')}: {fault}")
            continue
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK | os.X_OK):
            yield error("disk", f"{name} cannot be written: {folder}; give this user the right, or name another")
        free.append((shutil.disk_usage(folder).free, folder))
    left, folder = min(free)
    if left < MIN_FREE_BYTES:
        yield warning(
            "disk", f"{left / 1e6:,.0f} MB are free in {folder}: make room, {MIN_FREE_BYTES / 1e6:.0f} MB at least"
        )
    else:
        yield ok("disk", f"{left / 1e9:,.1f} GB are free in {folder}")


def processor_name() -> str:
    try:
        lines = [line.split(":", 1)[1].strip() for line in _CPUINFO.read_text().splitlines() if "model name" in line]
    except OSError:
        lines = []
    return lines[0] if lines else platform.machine()


def available_memory() -> int | None:
    """Bytes: under a container's limit, or of the machine."""
    lefts = [] if (limited := memory_left()) is None else [limited]
    try:
        fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        lefts.append(int(fields["MemAvailable"].split()[0]) << 10)
    except (OSError, KeyError, ValueError):
        pass
    return min(lefts, default=None)
