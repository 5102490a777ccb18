"""What a sentence costs, and which are encoded together next. Knows lengths in tokens; no tensors, no requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

TILE = 16
"""A sentence's cost is its source tokens, with the end symbol, rounded up to this, once for each row of its beam: short
ones are not free."""


class QueuedSentence(Protocol):
    """What waits: anything with source tokens, the end symbol not counted. Told apart by identity."""

    @property
    def source(self) -> Sequence[int]: ...

    @property
    def beam_size(self) -> int:
        """In rows; 1 without a beam."""
        ...


S = TypeVar("S", bound=QueuedSentence)


def cost(sentence: QueuedSentence) -> int:
    """In tokens, as the queue and the encoder's budget count them."""
    return (len(sentence.source) // TILE + 1) * TILE * sentence.beam_size


class WaitingQueue(Generic[S]):
    """The sentences that a worker has been given and that have no row yet, in two lanes that take turns.

    Those that are `priority` need not wait for the others, nor can they keep the others waiting for ever.
    """

    def __init__(self, encode_tokens: int = 2_048, max_held_steps: int = 4) -> None:
        """`encode_tokens`: padded tokens encoded in one turn; `max_held_steps`: turns that a place may stay empty."""
        self.encode_tokens, self.max_held_steps = encode_tokens, max_held_steps
        self._lanes: tuple[deque[S], deque[S]] = (deque(), deque())
        self._steps_held_back = 0

    def __len__(self) -> int:
        return sum(map(len, self._lanes))

    def add(self, sentence: S, priority: bool = False) -> None:
        self._lanes[not priority].append(sentence)

    def remove(self, sentence: S) -> bool:
        """Takes out one that shall not be decoded after all; False if it is not here."""
        for lane in self._lanes:
            if sentence in lane:
                lane.remove(sentence)
                return True
        return False

    def take(self, free: int, rows: int) -> list[S]:
        """Sentences to encode now into the `free` ones of a batch's `rows`: within the budget, one at least.

        None for a few turns while more than a quarter of the rows is at work and less than a quarter would join them:
        every weight is read to encode, be it for one sentence or for eight.
        """
        if not len(self) or not free:
            return []
        few, busy = min(len(self), free) < rows // 4, rows - free > rows // 4
        if few and busy and self._steps_held_back < self.max_held_steps:
            self._steps_held_back += 1
            return []
        self._steps_held_back = 0
        taken: list[S] = []
        longest, number = 0, 0
        while len(self):
            lane = self._lanes[number % 2] or self._lanes[(number + 1) % 2]
            free -= lane[0].beam_size
            longest = max(longest, cost(lane[0]))
            if free < 0 or (taken and longest * (len(taken) + 1) > self.encode_tokens):
                break
            taken.append(lane.popleft())
            number += 1
        return taken
