"""Puts load on a server with `load.c`, compiled on demand, and reads its results."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.cores import pinned

SOURCE = Path(__file__).with_name("load.c")
CONNECTIONS = 8_192
"""Maximum in the open loop; further arrivals wait, and their waiting counts."""
WAVE_S = 120.0
"""How long a wave's answers are waited for."""

Figures = dict[str, float]
"""requests, tokens: per second, of successful responses; p50, p95, p99: milliseconds; refused, failed: shares of the
arrivals."""


@dataclass(frozen=True)
class Load:
    """`amount` clients (closed), or of one request each (wave), or arrivals a second as a multiple of the capacity
    (open)."""

    kind: Literal["closed", "wave", "open"]
    amount: float

    def __str__(self) -> str:
        if self.kind == "open":
            return f"{self.amount:.1f} x capacity"
        name = "at once" if self.kind == "wave" else f"client{'s' * (self.amount != 1)}"
        return f"{self.amount:.0f} {name}"


class Generator:
    """The compiled load generator, on a core of its own."""

    def __init__(self, folder: Path, core: int | None, seconds: float, warmup: float) -> None:
        """Compiles the generator. It measures for `seconds`, after `warmup` seconds of the same load."""
        self.core, self.seconds, self.warmup = core, seconds, warmup
        self.program = folder / "load"
        command = [compiler() or "cc", "-O2", "-std=gnu11", "-o", str(self.program), str(SOURCE), "-lm"]
        subprocess.run(command, check=True)

    def run(self, port: int, bodies: Path, load: Load, capacity: float = 1.0, seed: int = 1) -> dict[str, Any]:
        """Runs a load; returns the output of `load.c`."""
        amount = load.amount * capacity if load.kind == "open" else load.amount
        # Enough to answer twice the capacity, however late.
        warmup, drain = self.warmup, 2 * (self.warmup + self.seconds) + 2
        if load.kind == "wave":
            warmup, drain = 0.0, WAVE_S
        options = [self.seconds, warmup, drain, CONNECTIONS, seed, "target_tokens"]
        words = ["127.0.0.1", port, "/translate", bodies, load.kind, amount, *options]
        with pinned(self.core):
            output = subprocess.run([self.program, *map(str, words)], check=True, capture_output=True, text=True)
        printed: dict[str, Any] = json.loads(output.stdout)
        return printed


def compiler() -> str | None:
    """The C compiler, if there is one."""
    return shutil.which(os.environ.get("CC", "cc"))


def figures(printed: dict[str, Any]) -> Figures:
    """The figures shown, from the generator's output."""
    arrived = max(1, printed["arrived"])
    statuses: dict[str, int] = printed["statuses"]
    failed = printed["errors"] + printed["unanswered"]
    failed += sum(count for status, count in statuses.items() if status not in ("200", "503"))
    quantiles = {name: printed["answered_ms"].get(name, float("nan")) for name in ("p50", "p95", "p99")}
    shares = {"refused": statuses.get("503", 0) / arrived, "failed": failed / arrived}
    return {"requests": printed["completed_per_s"], "tokens": printed["field_per_s"], **quantiles, **shares}


def medians(rounds: Sequence[Figures]) -> Figures:
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
