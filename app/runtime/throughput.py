"""Estimates the workers' recent speed, for Retry-After headers and for display."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic


class DecodeRate:
    """The workers' time per source token, measured while sentences wait."""

    def __init__(
        self, half_life_s: float = 5.0, half_life_tokens: float = 50_000.0, known_after_s: float = 0.25
    ) -> None:
        self.half_life_s, self.half_life_tokens, self.known_after_s = half_life_s, half_life_tokens, known_after_s
        self._rows, self._seconds = 0.0, 0.0
        self._target_tokens, self._cost = 0.0, 0.0

    def add_step(self, rows: int, seconds: float) -> None:
        """Records that a fully loaded worker took `seconds` for a step of `rows` sentences."""
        decay = 0.5 ** (seconds / self.half_life_s)
        self._rows, self._seconds = self._rows * decay + rows, self._seconds * decay + seconds

    def add_sentence(self, target_tokens: int, cost: int) -> None:
        """Records that a sentence of `cost` source tokens took `target_tokens` steps."""
        decay = 0.5 ** (cost / self.half_life_tokens)
        self._target_tokens, self._cost = self._target_tokens * decay + target_tokens, self._cost * decay + cost

    def seconds_for(self, tokens: float) -> float:
        """The time that one worker needs for `tokens`; 0 until enough is known, since a batch fills up slowly."""
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
