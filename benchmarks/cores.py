"""Which cores a measurement uses, and how processes are kept on them. Knows nothing of what they run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """Where servers run, and where the load comes from."""

    server: int | None
    load: int | None

    @classmethod
    def found(cls) -> Cores:
        """The first and the last that we may use; none where they cannot be chosen."""
        if not hasattr(os, "sched_getaffinity"):
            return cls(None, None)
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[0], cores[-1])


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Processes started inside run on `core` alone."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
