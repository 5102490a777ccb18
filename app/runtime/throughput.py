"""Estimates the workers' recent speed: for how long requests will wait, and for display."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic

MAX_GAP_S = 2.0
"""Workers that send nothing for longer are not at work: they start, load a model, or hang."""


class DecodeRate:
    """The time that all workers together take for a token of cost, measured while sequences wait."""

    def __init__(
        self,
        half_life_s: float = 3.0,
        half_life_tokens: float = 50_000.0,
        known_after_s: float = 0.25,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.half_life_s, self.half_life_tokens, self.known_after_s = half_life_s, half_life_tokens, known_after_s
        self._clock = clock
        self._busy_since: float | None = None
        """When sequences were last found to wait."""
        self._rows = self._seconds = self._target_tokens = self._cost = 0.0

    def add_steps(self, rows: int, is_busy: bool) -> None:
        """Records that steps of so many rows in total have ended since the last call; `is_busy`: sequences wait."""
        now = self._clock()
        if self._busy_since is not None and (seconds := now - self._busy_since) <= MAX_GAP_S:
            decay = 0.5 ** (seconds / self.half_life_s)
            self._rows, self._seconds = self._rows * decay + rows, self._seconds * decay + seconds
        self._busy_since = now if is_busy else None

    def pause(self) -> None:
        """Called when no sequence waits any more."""
        self._busy_since = None

    def add_sequence(self, target_tokens: int, cost: int) -> None:
        """Records that a sequence of this cost took `target_tokens` steps."""
        decay = 0.5 ** (cost / self.half_life_tokens)
        self._target_tokens, self._cost = self._target_tokens * decay + target_tokens, self._cost * decay + cost

    def seconds_for(self, tokens: float) -> float:
        """The time for `tokens` of cost; 0 until enough is known."""
        if self._seconds < self.known_after_s or not self._rows or not self._cost:
            return 0.0
        return tokens * (self._target_tokens / self._cost) * (self._seconds / self._rows)


class TokensPerSecond:
    """Tokens per second over the last `window_s` whole seconds, including idle ones."""

    def __init__(self, window_s: int = 10, clock: Callable[[], float] = monotonic) -> None:
        self.window_s, self._clock = window_s, clock
        self._counts: deque[list[int]] = deque()  # [second, tokens]

    def add(self, tokens: int) -> None:
        now = int(self._clock())
        if self._counts and self._counts[-1][0] == now:
            self._counts[-1][1] += tokens
            return
        self._counts.append([now, tokens])
        self._forget(now)

    def mean(self) -> float:
        now = int(self._clock())
        self._forget(now)
        return sum(tokens for second, tokens in self._counts if second < now) / self.window_s

    def _forget(self, now: int) -> None:
        while self._counts and self._counts[0][0] < now - self.window_s:
            self._counts.popleft()
