"""Byte-pair merges with BPE-dropout (Provilkov et al. 2020), which skips some merges at random.

Works on pieces and their scores; `model.tokenizer` separates text from symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random

_WORDS_KEPT = 1 << 16
_NEVER = 1 << 62


class Merges:
    """Merges characters into pieces as SentencePiece does, if no merge is dropped.

    SentencePiece's own dropout is not used: in version 0.2.3, equal seeds draw different tokens in another process.
    """

    def __init__(self, pieces: Mapping[str, tuple[int, float]], byte_ids: Sequence[int], mark: str) -> None:
        """`pieces`: each piece's id and score; higher scores merge first. `byte_ids`: the ids of the 256 bytes."""
        self._pieces, self._byte_ids, self._mark = pieces, byte_ids, mark
        self._words_part = not any(mark in piece[1:] for piece in pieces)
        self._undropped = lru_cache(_WORDS_KEPT)(self._without_dropout)

    def encode(self, text: str, drops: MergeDropout) -> list[int]:
        """The ids of `text`, in which `mark` represents a space."""
        ids: list[int] = []
        for word in self._words(text):
            whole, merges = self._undropped(word)
            ids += whole if drops.keeps_all(merges) else self._ids(self._merged(word, drops))
        return ids

    def _words(self, text: str) -> list[str]:
        """Splits `text` into parts, each of which is tokenised on its own: no piece crosses their borders."""
        if not self._words_part:
            return [text]
        first, *others = text.split(self._mark)
        return [first, *(self._mark + other for other in others)] if first else [self._mark + it for it in others]

    def _without_dropout(self, word: str) -> tuple[list[int], int]:
        """The ids of `word`, and the number of merges that make them."""
        merges = count()
        pieces = self._merged(word, lambda: next(merges) < 0)
        return self._ids(pieces), next(merges)

    def _ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of `pieces`, with bytes in place of characters that are not pieces."""
        ids: list[int] = []
        for piece in pieces:
            known = self._pieces.get(piece)
            ids += (known[0],) if known else [self._byte_ids[byte] for byte in piece.encode()]
        return ids

    def _merged(self, word: str, is_dropped: Callable[[], bool]) -> list[str]:
        """Algorithm 1 of the paper. In each round, each possible merge is dropped at random; of the others, the one
        with the highest score is done, the leftmost first. Ends when no merge is possible, or all are dropped."""
        symbols = list(word)  # the piece that begins at each character; empty if it belongs to an earlier one
        before, after = list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))
        pieces = self._pieces
        queue = [
            (-pieces[both][1], left, left + 1, len(both))
            for left in range(len(word) - 1)
            if (both := word[left : left + 2]) in pieces
        ]
        heapify(queue)
        dropped = []
        while queue:
            merge = heappop(queue)
            _, left, right, length = merge
            if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != length:
                continue  # one of the two is part of another piece by now
            if is_dropped():
                dropped.append(merge)
                continue
            symbols[left] += symbols[right]
            symbols[right] = ""
            following = after[left] = after[right]
            if following < len(word):
                before[following] = left
            for one, other in ((before[left], left), (left, following)):
                if one >= 0 and other < len(word) and (both := symbols[one] + symbols[other]) in pieces:
                    heappush(queue, (-pieces[both][1], one, other, len(both)))
            for again in dropped:
                heappush(queue, again)
            dropped.clear()
        return [symbol for symbol in symbols if symbol]


class MergeDropout:
    """Decides for each merge in turn whether it is dropped: with probability `dropout`, in [0, 1]."""

    def __init__(self, dropout: float, random: Random) -> None:
        self._dropout, self._random = dropout, random
        self._gap = self._next()

    def __call__(self) -> bool:
        if self._gap:
            self._gap -= 1
            return False
        self._gap = self._next()
        return True

    def keeps_all(self, merges: int) -> bool:
        """Whether none of the next `merges` merges is dropped; if so, they count as decided."""
        if self._gap < merges:
            return False
        self._gap -= merges
        return True

    def _next(self) -> int:
        """The number of merges until the next drop: n or more with probability (1 - dropout)^n."""
        if not 0 < self._dropout < 1:
            return 0 if self._dropout else _NEVER
        return int(math.log(1 - self._random.random()) / math.log1p(-self._dropout))
