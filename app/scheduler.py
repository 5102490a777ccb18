"""Which sentence is decoded next: the waiting queue, bounded, and fair between requests.

Knows how many tokens a sentence has and nothing of tensors or threads: the engine calls it under a lock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, Protocol, TypeVar

from app.errors import Overloaded, ServiceError, TooMuchText

TILE = 16
"""A sentence's cost is its source tokens, with the end symbol, rounded up to this: short ones are not free."""


class Sentence(Protocol):
    """What waits: anything with source tokens, the end symbol not counted. Told apart by identity."""

    @property
    def source(self) -> Sequence[int]: ...


S = TypeVar("S", bound=Sentence)


def cost(sentence: Sentence) -> int:
    """In tokens, as the queue and the encoder's budget count them."""
    return math.ceil((len(sentence.source) + 1) / TILE) * TILE


@dataclass(eq=False)
class Job(Generic[S]):
    """All sentences of one request, for one model; `deadline` on `monotonic`'s clock, seconds."""

    model: str
    sentences: Sequence[S]
    deadline: float = math.inf
    cancelled: bool = False
    errors: dict[S, ServiceError] = field(default_factory=dict)
    """What became of sentences that did not come back translated."""
    arrived: float = field(default_factory=monotonic)
    unfinished: int = 0
    waiting: deque[S] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.unfinished = len(self.sentences)
        self.waiting.extend(self.sentences)


class Throughput:
    """Tokens a second, of late: older work counts half for every `half_life_s` of newer work."""

    def __init__(self, half_life_s: float = 10.0) -> None:
        self.half_life_s, self._tokens, self._seconds = half_life_s, 0.0, 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """`tokens` were finished in `seconds` of work."""
        kept = 0.5 ** (seconds / self.half_life_s)
        self._tokens = self._tokens * kept + tokens
        self._seconds = self._seconds * kept + seconds

    def seconds(self, tokens: int) -> float:
        """How long `tokens` will take; 0 as long as nothing is known."""
        return tokens * self._seconds / self._tokens if self._tokens else 0.0


class Scheduler(Generic[S]):
    """The waiting sentences of every model. `queue_tokens` bounds their cost, `encode_tokens` one admission's.

    `waiting` sentences cost `waiting_tokens`; both may be read without the lock.
    """

    def __init__(self, queue_tokens: int, encode_tokens: int = 2_048) -> None:
        self.queue_tokens, self.encode_tokens = queue_tokens, encode_tokens
        self.waiting = 0
        self.waiting_tokens = 0
        self.throughput = Throughput()
        self._turns: dict[str, deque[Job[S]]] = {}

    def add(self, job: Job[S]) -> None:
        """Queues a job. Raises TooMuchText if it never can be, Overloaded if it cannot now or not in time."""
        tokens = sum(map(cost, job.sentences))
        if tokens > self.queue_tokens:
            raise TooMuchText(f"The text is {tokens} tokens long; the queue holds {self.queue_tokens}.")
        excess = self.waiting_tokens + tokens - self.queue_tokens
        if excess > 0:
            raise _overloaded("The queue is full.", self.throughput.seconds(excess))
        late = self.throughput.seconds(self.waiting_tokens) - (job.deadline - monotonic())
        if late > 0 and self.waiting_tokens:
            raise _overloaded("The queue is too long for the deadline.", late)
        if job.waiting:
            self._turns.setdefault(job.model, deque()).append(job)
            self._count(job.waiting, 1)

    def cancel(self, job: Job[S]) -> None:
        """Drops what waits of `job`. What is being decoded of it, the engine drops when it sees `cancelled`."""
        job.cancelled = True
        if job.waiting:
            self._turns[job.model].remove(job)
            self._count(job.waiting, -1)
            job.waiting.clear()

    def take(self, model: str, free: int, rows: int) -> list[tuple[S, Job[S]]]:
        """Sentences to admit now into the `free` ones of a batch's `rows`: one from each request in turn.

        As many as the encoder's budget allows, padded to the longest; one at least. None while less than a quarter
        of the rows is free and more wait than fit: encoding many together costs less than one after the other.
        """
        turns = self._turns.get(model)
        if not turns or (free < rows // 4 and sum(len(job.waiting) for job in turns) > free):
            return []
        taken: list[tuple[S, Job[S]]] = []
        longest = 0
        while turns and len(taken) < free:
            job = turns[0]
            longest = max(longest, cost(job.waiting[0]))
            if taken and longest * (len(taken) + 1) > self.encode_tokens:
                break
            taken.append((job.waiting.popleft(), job))
            turns.rotate(-1)
            if not job.waiting:
                turns.pop()
        self._count([sentence for sentence, _ in taken], -1)
        return taken

    def clear(self) -> list[Job[S]]:
        """Empties the queue; returns the jobs that were in it."""
        jobs = [job for turns in self._turns.values() for job in turns]
        for job in jobs:
            self.cancel(job)
        return jobs

    def _count(self, sentences: Collection[S], sign: int) -> None:
        self.waiting += sign * len(sentences)
        self.waiting_tokens += sign * sum(map(cost, sentences))


def _overloaded(why: str, wait_s: float) -> Overloaded:
    seconds = max(1, math.ceil(wait_s))
    return Overloaded(f"{why} Retry after {seconds} s.", retry_after_s=seconds)
