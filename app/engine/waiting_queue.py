"""A worker's queue of sentences that wait for rows, and the cost of a sentence in tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

TILE = 16
"""A sentence costs its source tokens with the end symbol, rounded up to a multiple of this, since short ones are not
free; once for each row of its beam."""


class QueuedSentence(Protocol):
    """Anything with source tokens, without the end symbol. Compared by identity."""

    @property
    def source(self) -> Sequence[int]: ...

    @property
    def beam_size(self) -> int:
        """The number of rows; 1 without a beam."""
        ...


NEW_CLIENT, NEW_REQUEST, FURTHER = range(3)
"""The lanes of a worker's queue: for a job of a client that has no other in a worker, for one of a request that has no
other there, and for the rest."""
S = TypeVar("S", bound=QueuedSentence)


def cost(length: int, beam_size: int) -> int:
    """The cost of a sentence of `length` tokens, without the end symbol."""
    return (length // TILE + 1) * TILE * beam_size


class WaitingQueue(Generic[S]):
    """A worker's sentences that have no row yet, in lanes that take turns.

    So a sentence of a new client does not wait for the others, nor can it keep them waiting for ever.
    """

    def __init__(self, encode_tokens: int = 2_048, max_held_steps: int = 4) -> None:
        """`encode_tokens`: padded tokens to encode at once. `max_held_steps`: steps for which rows may stay empty."""
        self.encode_tokens, self.max_held_steps = encode_tokens, max_held_steps
        self._lanes: tuple[deque[S], ...] = (deque(), deque(), deque())
        self._steps_since = 0
        self._next_lane = 0

    def __len__(self) -> int:
        return sum(map(len, self._lanes))

    def add(self, sentence: S, lane: int = FURTHER) -> None:
        self._lanes[lane].append(sentence)

    def remove(self, sentence: S) -> bool:
        """Removes a cancelled sentence. Returns False if it is not in the queue."""
        for lane in self._lanes:
            if sentence in lane:
                lane.remove(sentence)
                return True
        return False

    def count_steps(self, steps: int) -> None:
        """Notes that the batch has taken so many steps."""
        self._steps_since += steps

    def take(self, free: int, rows: int) -> list[S]:
        """Takes the sentences to encode now, for `free` of a batch's `rows`: within the budget, but at least one.

        Takes none before `max_held_steps` steps after the last ones while more than a quarter of the rows is busy and
        less than a quarter would join: encoding reads every weight, whether for one sentence or for eight.
        """
        if not len(self) or not free:
            return []
        few, busy = min(len(self), free) < rows // 4, rows - free > rows // 4
        if few and busy and self._steps_since < self.max_held_steps:
            return []
        self._steps_since = 0
        taken: list[S] = []
        longest = 0
        while len(self):
            while not self._lanes[self._next_lane]:
                self._pass_turn()
            lane = self._lanes[self._next_lane]
            free -= lane[0].beam_size
            longest = max(longest, cost(len(lane[0].source), lane[0].beam_size))
            if free < 0 or (taken and longest * (len(taken) + 1) > self.encode_tokens):
                break
            taken.append(lane.popleft())
            self._pass_turn()
        return taken

    def _pass_turn(self) -> None:
        self._next_lane = (self._next_lane + 1) % len(self._lanes)
