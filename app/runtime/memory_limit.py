"""The memory that a container's limit leaves to this process, from Linux control groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_CGROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 reports a number near the maximum if there is no limit."""


def memory_left(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int | None:
    """The bytes left under the tightest limit of this process's control groups; None without a limit.

    Cached files do not count as used, since the kernel drops them when memory is short.
    """
    lefts = [left for folder, files in _folders(cgroups, own) if (left := _left(folder, *files)) is not None]
    return min(lefts, default=None)


_VERSION_1 = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
_VERSION_2 = "memory.max", "memory.current", ""


def _folders(cgroups: Path, own: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """This process's control groups and their parents, and the file names of their version."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in lines:
        if controllers not in ("", "memory"):
            continue
        root, files = (cgroups / "memory", _VERSION_1) if controllers else (cgroups, _VERSION_2)
        # In a container, the path may be that on the host, while the mount is the container's own group.
        folder = root / path.lstrip("/")
        yield from ((place, files) for place in (folder, *folder.parents) if place.is_relative_to(root))


def _left(folder: Path, limit_name: str, usage_name: str, prefix: str) -> int | None:
    try:
        limit = (folder / limit_name).read_text().strip()
        usage = int((folder / usage_name).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if limit == "max" or int(limit) >= _NO_LIMIT:
        return None
    files = int(stat.get(f"{prefix}inactive_file", 0)) + int(stat.get(f"{prefix}active_file", 0))
    return int(limit) - usage + files
