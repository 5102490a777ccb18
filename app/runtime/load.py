"""How busy the service is, as one figure to alert on, to scale by and to balance by: 0 idle, 1 saturated, above 1
refusing requests.

Neither the length of the queue nor its waits can serve: both stay near 0 until it is too late. The share of time in
which workers are busy cannot either, since thin batches waste time: at half load, workers are hardly ever idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic, thread_time

from app.runtime.throughput import TokensPerSecond

WINDOW_S = 10
"""The load is that of the last so many seconds."""
MAX_LOAD = 4.0
"""Refused clients ask again, so refusals overstate what is asked for."""
SATURATED_LAG_S = 1.0
"""An event loop that is later than this has more to do than it can."""


class StepTime:
    """A worker's time for a step as a linear function of its rows: the least squares fit to recent steps.

    Extrapolates from the thin batches of a service that is not busy to full ones.
    """

    def __init__(self, half_life_steps: float = 2_000.0, ridge: float = 0.02) -> None:
        """`ridge`: in squared rows. It pulls the fit towards a time proportional to the rows, which is what remains if
        all steps have the same number of rows."""
        self._decay, self._ridge = 0.5 ** (1 / half_life_steps), ridge
        self._steps = self._rows = self._seconds = self._rows_squared = self._row_seconds = 0.0

    def add(self, rows: int, seconds: float) -> None:
        """Records a step."""
        decay = self._decay
        self._steps = self._steps * decay + 1
        self._rows = self._rows * decay + rows
        self._seconds = self._seconds * decay + seconds
        self._rows_squared = self._rows_squared * decay + rows * rows
        self._row_seconds = self._row_seconds * decay + rows * seconds

    def seconds_per_row(self, rows: float) -> float:
        """Of a step with `rows`; 0 before the first step."""
        if not self._rows:
            return 0.0
        mean_rows, mean_s = self._rows / self._steps, self._seconds / self._steps
        variance = self._rows_squared / self._steps - mean_rows**2
        covariance = self._row_seconds / self._steps - mean_rows * mean_s
        proportional = mean_s / mean_rows
        slope = (covariance + self._ridge * proportional) / (variance + self._ridge)
        slope = min(max(slope, 0.0), proportional)  # neither more rows nor an empty step take less than no time
        return slope + (mean_s - slope * mean_rows) / rows


class Load:
    """The load of this process and its workers."""

    def __init__(
        self, clock: Callable[[], float] = monotonic, loop_cpu_seconds: Callable[[], float] = thread_time
    ) -> None:
        """`loop_cpu_seconds`: the processor time that the calling thread has used."""
        self.workers: Callable[[], int] = lambda: 1
        """The number of running workers."""
        self.batch_rows = 1
        """Rows of a full batch in a worker."""
        self._clock, self._loop_cpu_seconds = clock, loop_cpu_seconds
        self._step_time = StepTime()
        self._rows, self._accepted, self._refused = (TokensPerSecond(WINDOW_S, clock) for _ in range(3))
        self._loop: deque[tuple[float, float, float]] = deque()
        """Samples of the event loop: time, processor time of its thread, lag in seconds."""

    def add_step(self, rows: int, seconds: float) -> None:
        """Records a step of a worker."""
        self._rows.add(rows)
        self._step_time.add(rows, seconds)

    def add_accepted(self) -> None:
        """Records a request that the engine has accepted."""
        self._accepted.add(1)

    def add_refused(self) -> None:
        """Records a request that was refused for lack of time or space."""
        self._refused.add(1)

    def sample_event_loop(self, lag_s: float) -> None:
        """Records that the event loop, which calls this, is `lag_s` late."""
        now = self._clock()
        self._loop.append((now, self._loop_cpu_seconds(), lag_s))
        while self._loop[0][0] < now - WINDOW_S:
            self._loop.popleft()

    def current(self) -> float:
        """What was asked of the workers by what they can do, or of the event loop if that is busier.

        Refused requests count as much as the accepted ones do on average.
        """
        accepted, refused = self._accepted.mean(), self._refused.mean()
        asked = 1 + refused / max(accepted, 1 / WINDOW_S)
        return min(MAX_LOAD, asked * max(self._of_workers(), self._of_event_loop()))

    def _of_workers(self) -> float:
        """Rows decoded, by the rows that the workers decode in the same time if their batches are full."""
        return self._rows.mean() * self._step_time.seconds_per_row(self.batch_rows) / max(1, self.workers())

    def _of_event_loop(self) -> float:
        """Its share of a core, or its lag if that is larger, as when it shares a core with the workers."""
        samples = list(self._loop)
        if len(samples) < 2:
            return 0.0
        (began, cpu_before, _), (ended, cpu_after, _) = samples[0], samples[-1]
        lag_s = sum(lag for _, _, lag in samples) / len(samples)
        return max((cpu_after - cpu_before) / max(ended - began, 1e-3), lag_s / SATURATED_LAG_S)
