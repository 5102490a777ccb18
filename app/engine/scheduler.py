"""Which sentence is decoded next and by which worker: one queue, bounded, and fair between requests.

Knows how many tokens a sentence has and workers by their numbers; nothing of tensors, processes or messages.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from app.engine.waiting_queue import Sentence, cost
from app.errors import DeadlinePassed, Overloaded, ServiceError, StepFailed, TooMuchText
from app.runtime.throughput import Pace

DEATHS = 3
"""A sentence that was in a worker at so many deaths is taken for their cause."""
S = TypeVar("S", bound=Sentence)


@dataclass(eq=False)
class Job(Generic[S]):
    """All sentences of one request, for one model; `deadline` on `monotonic`'s clock, seconds."""

    model: str
    sentences: list[S]
    deadline: float = math.inf
    cancelled: bool = False
    errors: dict[S, ServiceError] = field(default_factory=dict)
    """What became of sentences that did not come back translated."""
    when_done: Callable[[], None] = lambda: None
    """Called once, when the last sentence is translated or in `errors`; never if it is cancelled."""
    when_settled: Callable[[S], None] = lambda sentence: None
    """Called for each that is."""
    arrived: float = field(default_factory=monotonic)
    unfinished: int = 0
    waiting: deque[S] = field(default_factory=deque)
    places: set[Place[S]] = field(default_factory=set)
    deaths: Counter[S] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.unfinished = len(self.sentences)
        self.waiting.extend(self.sentences)

    def settle(self, sentence: S, error: ServiceError | None = None) -> None:
        """One more is translated, or ended in `error`."""
        if error:
            self.errors[sentence] = error
        self.unfinished -= 1
        self.when_settled(sentence)
        if not self.unfinished:
            self.when_done()


@dataclass(eq=False)
class Place(Generic[S]):
    """A sentence in a worker. `ahead`: its request has no other there, so it need not wait behind those that have.

    `waited`: seconds, before it was given to the worker.
    """

    number: int
    worker: int
    sentence: S
    job: Job[S]
    ahead: bool
    waited: float


@dataclass(frozen=True)
class Room:
    """What a worker holds at once of each model.

    `places` sentences, those that wait for a row included, and `spare` more that are only for requests which have
    no place yet; `tokens`: what they cost together, where one sentence is taken whatever it costs.
    """

    places: int
    spare: int
    tokens: int


class _Worker(Generic[S]):
    """What the scheduler knows of a worker: its room, and by model what it holds."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.held: dict[str, set[Place[S]]] = {}
        self.tokens: Counter[str] = Counter()
        self.doubted: set[str] = set()

    def fits(self, model: str, sentence: Sentence, ahead: bool) -> bool:
        held = len(self.held.get(model, ()))
        if not held:
            return True
        places = self.room.places + (self.room.spare if ahead else 0)
        return held < places and self.tokens[model] + cost(sentence) <= self.room.tokens


class Scheduler(Generic[S]):
    """The sentences of every model, waiting or in a worker. `queue_tokens` bounds what the waiting ones cost.

    A request is refused if its turn would come later than `max_wait_s` from now, or its end after its deadline.
    """

    def __init__(self, queue_tokens: int, max_wait_s: float = math.inf) -> None:
        self.queue_tokens, self.max_wait_s = queue_tokens, max_wait_s
        self.waiting = 0
        """Sentences that no worker has; `waiting_tokens` is what they cost."""
        self.waiting_tokens = 0
        self.pace = Pace()
        self._workers: dict[int, _Worker[S]] = {}
        self._turns: dict[str, OrderedDict[Job[S], None]] = {}
        self._doubtful: dict[str, deque[tuple[S, Job[S]]]] = {}  # one death more, and they are taken for its cause
        self._places: dict[int, Place[S]] = {}
        self._numbers = itertools.count()

    # ---- Requests

    def add(self, job: Job[S]) -> None:
        """Queues a job. Raises TooMuchText if it never can be, Overloaded if it cannot now or not in time."""
        tokens = sum(map(cost, job.sentences))
        if tokens > self.queue_tokens:
            raise TooMuchText(f"The text is {tokens} tokens long; the queue holds {self.queue_tokens}.")
        self.check(tokens)
        if self.waiting:
            self._check_deadline(job, tokens)
        if job.waiting:
            self._turns.setdefault(job.model, OrderedDict())[job] = None
            self._count(len(job.waiting), tokens)

    def cancel(self, job: Job[S]) -> list[Place[S]]:
        """Forgets `job`, waiting or not; returns its places, which their workers must be told to give up."""
        job.cancelled = True
        self._drop_waiting(job)
        return [self._vacate(place) for place in list(job.places)]

    def check(self, tokens: int = 1) -> None:
        """Raises Overloaded if what costs `tokens` would find the queue full, or its turn would come too late.

        Nothing else need be known of it: requests take turns, so one sentence waits for one of each other request.
        """
        excess = self.waiting_tokens + tokens - self.queue_tokens
        if excess > 0:
            raise _overloaded("The queue is full.", self._seconds(excess))
        late = self._seconds(self.waiting_tokens / max(1, self.waiting) * self._requests) - self.max_wait_s
        if late > 0:
            raise _overloaded("The queue is too long.", late)

    def _check_deadline(self, job: Job[S], tokens: int) -> None:
        """Raises Overloaded if it comes first: a long request waits for as many of each other as it has itself."""
        work = min(self.waiting_tokens, tokens * self._requests) + tokens
        late = self._seconds(work) - (job.deadline - monotonic())
        if late > 0:
            raise _overloaded("The queue is too long for the deadline.", late)

    @property
    def _requests(self) -> int:
        """Of which sentences wait."""
        return sum(map(len, self._turns.values())) + sum(map(len, self._doubtful.values()))

    # ---- Workers

    def join(self, worker: int, room: Room) -> None:
        """A worker is there and holds nothing."""
        self._workers[worker] = _Worker(room)

    def leave(self, worker: int) -> None:
        """A worker is dead. Its sentences wait again, before the others, but for those that saw too many deaths."""
        if worker not in self._workers:
            return
        for held in self._workers.pop(worker).held.values():
            for place in sorted(held, key=lambda place: place.number, reverse=True):
                self._places.pop(place.number)
                place.job.places.remove(place)
                self._wait_again(place.sentence, place.job)

    def assign(self) -> list[Place[S]]:
        """Gives waiting sentences to workers with room for them, one of each request in turn; each new place once.

        A sentence goes to the worker with the least to do. One whose deadline has passed is not started.
        """
        now = monotonic()
        places: list[Place[S]] = []
        for model in list(self._turns) + list(self._doubtful):
            while place := self._next_doubtful(model, now) or self._next(model, now):
                places.append(place)
        return places

    def release(self, number: int) -> Place[S] | None:
        """A worker is done with a place. None if that was given up meanwhile; else `settle` must follow."""
        place = self._places.get(number)
        return self._vacate(place) if place else None

    def settle(self, place: Place[S], error: ServiceError | None = None) -> None:
        """The sentence of a released place is translated, or ended in `error`."""
        place.job.settle(place.sentence, error)

    def holds(self, worker: int) -> bool:
        """Whether sentences are in `worker`, which is there."""
        return any(self._workers[worker].held.values())

    def give_up(self, error: ServiceError) -> None:
        """Everything that waits ends in `error`."""
        for turns in list(self._turns.values()):
            for job in list(turns):
                self._end(job, error)
        for doubtful in self._doubtful.values():
            while doubtful:
                sentence, job = doubtful.popleft()
                self._count(-1, -cost(sentence))
                job.settle(sentence, error)

    def _next(self, model: str, now: float) -> Place[S] | None:
        turns = self._turns.get(model)
        while turns:
            job = next(iter(turns))
            if job.deadline <= now:
                self._end(job, DeadlinePassed("Not begun by the deadline."))
                continue
            ahead = not job.places
            worker = self._least_busy(model, job.waiting[0], ahead)
            if worker is None:
                return None
            sentence = job.waiting.popleft()
            turns.move_to_end(job)
            if not job.waiting:
                del turns[job]
            return self._occupy(worker, sentence, job, ahead, now)
        return None

    def _next_doubtful(self, model: str, now: float) -> Place[S] | None:
        """Sentences that were in a worker at all deaths but one too many: one at a time in each worker."""
        doubtful = self._doubtful.get(model)
        if not doubtful:
            return None
        sentence, job = doubtful[0]
        worker = self._least_busy(model, sentence, ahead=True, doubted=True)
        if worker is None:
            return None
        doubtful.popleft()
        self._workers[worker].doubted.add(model)
        return self._occupy(worker, sentence, job, True, now)

    def _least_busy(self, model: str, sentence: S, ahead: bool, doubted: bool = False) -> int | None:
        able = (
            (worker.tokens.total(), number)
            for number, worker in self._workers.items()
            if worker.fits(model, sentence, ahead) and not (doubted and model in worker.doubted)
        )
        return min(able, default=(0, None))[1]

    def _occupy(self, worker: int, sentence: S, job: Job[S], ahead: bool, now: float) -> Place[S]:
        place = Place(next(self._numbers), worker, sentence, job, ahead, now - job.arrived)
        self._places[place.number] = place
        job.places.add(place)
        self._workers[worker].held.setdefault(job.model, set()).add(place)
        self._workers[worker].tokens[job.model] += cost(sentence)
        self._count(-1, -cost(sentence))
        return place

    def _vacate(self, place: Place[S]) -> Place[S]:
        del self._places[place.number]
        place.job.places.remove(place)
        worker, model = self._workers[place.worker], place.job.model
        worker.held[model].remove(place)
        worker.tokens[model] -= cost(place.sentence)
        if place.job.deaths[place.sentence] == DEATHS - 1:
            worker.doubted.discard(model)
        return place

    def _wait_again(self, sentence: S, job: Job[S]) -> None:
        job.deaths[sentence] += 1
        if job.deaths[sentence] >= DEATHS:
            job.settle(sentence, StepFailed(f"{DEATHS} workers died with this sentence in them."))
            return
        self._count(1, cost(sentence))
        if job.deaths[sentence] == DEATHS - 1:
            self._doubtful.setdefault(job.model, deque()).append((sentence, job))
            return
        job.waiting.appendleft(sentence)
        turns = self._turns.setdefault(job.model, OrderedDict())
        turns[job] = None
        turns.move_to_end(job, last=False)

    def _drop_waiting(self, job: Job[S]) -> list[S]:
        dropped = list(job.waiting)
        if dropped:
            del self._turns[job.model][job]
            job.waiting.clear()
        if doubtful := self._doubtful.get(job.model):
            dropped += [sentence for sentence, owner in doubtful if owner is job]
            self._doubtful[job.model] = deque(entry for entry in doubtful if entry[1] is not job)
        self._count(-len(dropped), -sum(map(cost, dropped)))
        return dropped

    def _end(self, job: Job[S], error: ServiceError) -> None:
        for sentence in self._drop_waiting(job):
            job.settle(sentence, error)

    def _count(self, sentences: int, tokens: int) -> None:
        self.waiting += sentences
        self.waiting_tokens += tokens

    def _seconds(self, tokens: float) -> float:
        """How long all workers together take for `tokens`."""
        return self.pace.seconds(tokens) / max(1, len(self._workers))


def _overloaded(why: str, wait_s: float) -> Overloaded:
    seconds = max(1, math.ceil(wait_s))
    return Overloaded(f"{why} Retry after {seconds} s.", retry_after_s=seconds)
