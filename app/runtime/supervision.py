"""How processes are supervised: when one is killed, and how soon another starts in its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Supervision:
    """Of the engine's workers, and of the instances of a service: `worker` stands for either."""

    restart_delays_s: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
    """One for each death in a row; the last one for all further deaths."""
    healthy_after_s: float = 60.0
    """A worker that lived this long begins a new row."""
    check_interval_s: float = 5.0
    max_silent_checks: int = 6
    """A worker that has work and says nothing for more checks than these hangs. Checks, not seconds: while the machine
    sleeps, seconds pass and no worker is to blame."""
    max_silent_checks_loading: int = 120
    """The same for a worker that loads the bundles, which may take minutes on a GPU."""
    exit_timeout_s: float = 5.0
    """How long a worker may take to end once its connection is closed."""


SUPERVISION = Supervision()
