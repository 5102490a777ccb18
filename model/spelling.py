"""Which tokens can spell the end of a given text, and then go on: for translations that continue a prefix."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

Spelling = tuple[tuple[tuple[int, int], ...], ...]
"""For each state, from 0 on, the tokens allowed there, each with the state after it. From the state `len(spelling)` on
all tokens are allowed. A state that no token leads to has none."""


class SpellingIndex:
    """The tokens of a vocabulary by the bytes that they spell."""

    def __init__(self, spelt: Sequence[bytes]) -> None:
        """`spelt`: the bytes of each token in UTF-8; empty for symbols, which are never allowed."""
        pairs = sorted((text, id) for id, text in enumerate(spelt) if text)
        self._texts, self._ids = [text for text, _ in pairs], [id for _, id in pairs]
        self._longest = max(map(len, self._texts), default=0)

    def spelling(self, text: bytes) -> Spelling | None:
        """All ways to spell `text`, whose last token may go beyond its end; None if there is none.

        States are numbers of bytes.
        """
        size = len(text)
        states: list[tuple[tuple[int, int], ...]] = [()] * size
        for at in reversed(range(size)):
            found = self._beginning_with(text[at:], size)
            for end in range(at + 1, min(size, at + self._longest + 1)):
                if states[end]:
                    found += self._exactly(text[at:end], end)
            states[at] = tuple(sorted(found))
        return tuple(states) if not text or states[0] else None

    def _beginning_with(self, text: bytes, state: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for place in range(bisect_left(self._texts, text), len(self._texts)):
            if not self._texts[place].startswith(text):
                break
            found.append((self._ids[place], state))
        return found

    def _exactly(self, text: bytes, state: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for place in range(bisect_left(self._texts, text), len(self._texts)):
            if self._texts[place] != text:
                break
            found.append((self._ids[place], state))
        return found
