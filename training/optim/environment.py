"""Describes where a session of training runs: device, precision, and versions of the software."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from model import __version__

_CHECKOUT = Path(__file__).resolve().parent.parent.parent


def session_record(device: torch.device, precision: str, processes: int) -> dict[str, Any]:
    """The record of a session for config.json. Has no paths, and no name of the machine."""
    return {
        "device": device.type,
        "device_name": device_name(device),
        "processes": processes,
        "precision": precision,
        "versions": versions(),
        "commit": commit(),
    }


def device_name(device: torch.device, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of the GPU, or of the processor as far as the system knows it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, names), platform.processor() or platform.machine())


def versions() -> dict[str, str]:
    """Versions of the software that affects a training's result."""
    libraries = {name: importlib.metadata.version(name) for name in ("torch", "sentencepiece")}
    return {"python": platform.python_version(), **libraries, "interlinear": __version__}


@functools.cache  # a later one is not that of the modules in memory
def commit(root: Path = _CHECKOUT) -> str | None:
    """The commit of the code in `root`, with "-dirty" appended if files differ; None outside a checkout."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
