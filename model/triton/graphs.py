"""Steps as CUDA graphs for a few numbers of rows. On a CPU the same steps run one kernel after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

SIZES = (16, 64, 256, 1024, 4096)
"""Numbers of rows that a graph computes: one sentence does not pay for a thousand rows. Keys need no sizes, since every
loop ends at a row's own length."""
UNCAPTURED_STEPS = 64
"""Steps of each size before it is captured: a service's self-test captures nothing, and neither does a size that is
seldom used. The first step compiles or loads the kernels, which a capture must not do."""


class StepGraphs:
    """Replays `step(rows)` for the smallest size that has the rows in use. All graphs share one memory pool."""

    def __init__(self, step: Callable[[int], None], rows: int, device: torch.device) -> None:
        self.sizes = [*[size for size in SIZES if size < rows], rows]
        self._step, self._is_cuda = step, device.type == "cuda"
        self._done: Counter[int] = Counter()
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    def run(self, rows: int, steps: int) -> int:
        """Runs `steps` steps of the first `rows` rows, and maybe more. Returns how many it computes."""
        size = next(size for size in self.sizes if size >= rows)
        self._done[size] += steps
        if self._is_cuda and size not in self._graphs and self._done[size] > UNCAPTURED_STEPS:
            self._capture(size)
        graph = self._graphs.get(size)
        for _ in range(steps):
            if graph is not None:
                graph.replay()
            else:
                self._step(size)
        return size

    def _capture(self, size: int) -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self._step(size)
        self._pool = graph.pool()
        self._graphs[size] = graph
