"""The processor of a measurement: its name, the cores in use, and how processes are pinned to them."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile")


def processor() -> str:
    """The processor's name and its instruction sets for matrix products, as far as known."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        lines = [line.partition(":") for line in text.splitlines()]
        fields = {name.strip(): value.strip() for name, _, value in lines}
        has = [name for name in INSTRUCTIONS if name in fields.get("flags", "").split()]
        if "model name" in fields:
            return f"{fields['model name']} ({' '.join(has)}{'' if 'amx_tile' in has else ', no AMX'})"
    return platform.processor() or platform.machine()


def chosen_isa() -> str:
    """The instruction set of our kernels, by the service's setting."""
    return os.environ.get("INTERLINEAR_ISA", "auto")


@dataclass(frozen=True)
class Cores:
    """The core for servers and the core for the load generator."""

    server: int | None
    load: int | None

    @classmethod
    def found(cls) -> Cores:
        """The first and the last core available to us; None if the system cannot pin processes."""
        if not hasattr(os, "sched_getaffinity"):
            return cls(None, None)
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[0], cores[-1])


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Pins processes started inside to `core`."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
