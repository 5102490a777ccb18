"""How fast the workers are of late: what a refusal's Retry-After is computed from, and what people are shown.

Knows tokens and seconds.
"""

from __future__ import annotations

from collections import deque
from time import monotonic


class Pace:
    """How long the workers take for a source token, from what they did of late while sentences waited for them."""

    def __init__(
        self, half_life_s: float = 5.0, half_life_tokens: float = 50_000.0, known_after_s: float = 0.25
    ) -> None:
        self.half_life_s, self.half_life_tokens, self.known_after_s = half_life_s, half_life_tokens, known_after_s
        self._rows, self._seconds = 0.0, 0.0
        self._target_tokens, self._cost = 0.0, 0.0

    def stepped(self, rows: int, seconds: float) -> None:
        """A worker with nothing to spare took `seconds` for a step of `rows` sentences."""
        kept = 0.5 ** (seconds / self.half_life_s)
        self._rows, self._seconds = self._rows * kept + rows, self._seconds * kept + seconds

    def finished(self, target_tokens: int, tokens: int) -> None:
        """A sentence that cost `tokens` took so many steps."""
        kept = 0.5 ** (tokens / self.half_life_tokens)
        self._target_tokens, self._cost = self._target_tokens * kept + target_tokens, self._cost * kept + tokens

    def seconds(self, tokens: float) -> float:
        """How long one worker will take for `tokens`; 0 as long as too little is known: a batch fills up slowly."""
        if self._seconds < self.known_after_s or not self._rows or not self._cost:
            return 0.0
        return tokens * (self._target_tokens / self._cost) * (self._seconds / self._rows)


class Speed:
    """Tokens a second over the last `window_s` whole seconds, idle ones included."""

    def __init__(self, window_s: int = 10) -> None:
        self.window_s = window_s
        self._counts: deque[list[int]] = deque()  # [second, tokens]

    def add(self, tokens: int) -> None:
        now = int(monotonic())
        if self._counts and self._counts[-1][0] == now:
            self._counts[-1][1] += tokens
            return
        self._counts.append([now, tokens])
        self._forget(now)

    def per_second(self) -> float:
        now = int(monotonic())
        self._forget(now)
        return sum(tokens for second, tokens in self._counts if second < now) / self.window_s

    def _forget(self, now: int) -> None:
        while self._counts and self._counts[0][0] < now - self.window_s:
            self._counts.popleft()
