"""What a process that serves sets before its imports and before threads start."""

from __future__ import annotations

import gc

from model.machine import share_heaps, use_one_blas_thread

GC_THRESHOLDS = 10_000, 50, 50
"""Imports and requests make hundreds of objects that need no collector: by default, a scan every 700 allocations takes
a tenth of their time."""


def tune_process() -> None:
    """Call it before the imports that take long."""
    gc.set_threshold(*GC_THRESHOLDS)
    use_one_blas_thread()
    share_heaps()
