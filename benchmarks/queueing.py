"""A simulation of instances: requests wait for a front process, are decoded in a worker's batch, and wait for the front
again, on the cores of a machine that its processes share."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

EPSILON = 1e-12
"""Seconds, or shares of a sentence's work, that rounding may leave over."""


@dataclass(frozen=True)
class Times:
    """Processor seconds of a request."""

    front: float
    """Of the front process, half of them before the translation."""
    step: float
    """Of a worker for a sentence of mean length, alone in its batch, without `row`: what all steps cost anyway."""
    row: float
    """What each sentence of a batch adds to that."""
    balancer: float

    def per_request(self, rows: float) -> float:
        """Of a worker for a sentence in a batch of so many."""
        return self.step / rows + self.row


@dataclass(eq=False)
class Request:
    """A request: how much longer than the mean its translation takes, and what to do once it is answered."""

    length: float
    done: Callable[[float], None]
    translated: bool = False


@dataclass(eq=False)
class Front:
    """A process that handles one request after the other."""

    cost: float
    queue: deque[Request] = field(default_factory=deque)
    left: float = 0.0
    """Seconds until it is through with the first request of the queue."""

    def add(self, request: Request) -> None:
        self.queue.append(request)
        if len(self.queue) == 1:
            self.left = self.cost

    @property
    def is_busy(self) -> bool:
        return bool(self.queue)

    def remaining(self) -> float:
        return self.left

    def advance(self, seconds: float) -> None:
        self.left -= seconds

    def finished(self) -> Request | None:
        if not self.queue or self.left > EPSILON:
            return None
        request = self.queue.popleft()
        self.left = self.cost
        return request


class Worker:
    """A process that decodes a batch which requests join and leave at any step."""

    def __init__(self, times: Times, max_rows: int) -> None:
        self._times, self._max_rows = times, max_rows
        self._order = itertools.count()
        self.rows: list[tuple[float, int, Request]] = []
        """Requests by when they are finished, on the worker's clock."""
        self.waiting: deque[Request] = deque()
        self.clock = 0.0
        """How many mean sentences each row has advanced by."""

    def __len__(self) -> int:
        return len(self.rows) + len(self.waiting)

    @property
    def is_busy(self) -> bool:
        return bool(self.rows)

    def add(self, request: Request) -> None:
        self.waiting.append(request)
        self._admit()

    def _admit(self) -> None:
        while self.waiting and len(self.rows) < self._max_rows:
            request = self.waiting.popleft()
            heapq.heappush(self.rows, (self.clock + request.length, next(self._order), request))

    def _seconds_per_sentence(self) -> float:
        return self._times.step + self._times.row * len(self.rows)

    def remaining(self) -> float:
        return (self.rows[0][0] - self.clock) * self._seconds_per_sentence()

    def advance(self, seconds: float) -> None:
        self.clock += seconds / self._seconds_per_sentence()

    def finished(self) -> Request | None:
        if not self.rows or self.rows[0][0] - self.clock > EPSILON:
            return None
        request = heapq.heappop(self.rows)[2]
        self._admit()
        return request


class Simulation:
    """Time, and what happens at which."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._order), action))

    def run(self, is_over: Callable[[], bool]) -> None:
        while self._events and not is_over():
            self.now, _, action = heapq.heappop(self._events)
            action()


class Machine:
    """Cores that processes share evenly when more of them have work than there are cores."""

    def __init__(self, simulation: Simulation, cores: float) -> None:
        self._simulation, self._cores = simulation, cores
        self.processes: list[tuple[Front | Worker, Callable[[Request], None]]] = []
        """Processes, and where a request goes after each."""
        self._changed = 0.0
        self._version = 0

    def add(self, process: Front | Worker, request: Request) -> None:
        """Gives a process a request."""
        self._advance()
        process.add(request)
        self._plan()

    def _speed(self) -> float:
        busy = sum(process.is_busy for process, _ in self.processes)
        return min(1.0, self._cores / busy) if busy else 1.0

    def _advance(self) -> None:
        seconds = (self._simulation.now - self._changed) * self._speed()
        self._changed = self._simulation.now
        for process, _ in self.processes:
            if process.is_busy:
                process.advance(seconds)

    def _plan(self) -> None:
        """Looks again when the first process is through with a request."""
        self._version += 1
        version = self._version
        remaining = [process.remaining() for process, _ in self.processes if process.is_busy]
        if remaining:
            due = self._simulation.now + max(0.0, min(remaining)) / self._speed()
            self._simulation.at(due, lambda: self._look(version))

    def _look(self, version: int) -> None:
        if version != self._version:
            return
        self._advance()
        for process, then in self.processes:
            while (request := process.finished()) is not None:
                then(request)
        self._plan()


class Instance:
    """A front process and its workers, on a machine of its own unless one is given."""

    def __init__(
        self,
        simulation: Simulation,
        times: Times,
        workers: int,
        cores: float,
        rows: int,
        machine: Machine | None = None,
    ) -> None:
        self._machine = machine or Machine(simulation, cores)
        self._simulation = simulation
        self.front = Front(times.front / 2)
        self.workers = [Worker(times, rows) for _ in range(workers)]
        self._machine.processes.append((self.front, self._after_front))
        self._machine.processes.extend((worker, self._after_worker) for worker in self.workers)

    def add(self, request: Request) -> None:
        self._machine.add(self.front, request)

    def _after_front(self, request: Request) -> None:
        if request.translated:
            request.done(self._simulation.now)
        else:
            min(self.workers, key=len).add(request)

    def _after_worker(self, request: Request) -> None:
        request.translated = True
        self.front.add(request)


Choice = Callable[[Sequence[int], random.Random], int]
"""Chooses an instance, given the number of requests that the balancer has at each."""


class Leastconn:
    """Chooses the instance with the fewest requests, the one that was chosen longest ago of several."""

    def __init__(self, instances: int) -> None:
        self._order = itertools.count()
        self._heap = [(0, next(self._order), number) for number in range(instances)]

    def __call__(self, counts: Sequence[int], draw: random.Random) -> int:
        while True:  # entries whose count has changed are out of date
            count, _, number = heapq.heappop(self._heap)
            if count == counts[number]:
                return number

    def changed(self, number: int, count: int) -> None:
        heapq.heappush(self._heap, (count, next(self._order), number))


class RoundRobin:
    """Chooses one instance after the other."""

    def __init__(self, instances: int) -> None:
        self._next = itertools.cycle(range(instances))

    def __call__(self, counts: Sequence[int], draw: random.Random) -> int:
        return next(self._next)

    def changed(self, number: int, count: int) -> None:
        """Needs no counts."""


class Random(RoundRobin):
    """Chooses at random, as a Service of Kubernetes does for each connection."""

    def __call__(self, counts: Sequence[int], draw: random.Random) -> int:
        return draw.randrange(len(counts))


POLICIES: dict[str, Callable[[int], Leastconn | RoundRobin]] = {
    "leastconn": Leastconn,
    "round robin": RoundRobin,
    "random": Random,
}


class Balancer:
    """HAProxy with some threads on cores of its own, which knows only the requests that it has sent itself."""

    def __init__(
        self, simulation: Simulation, times: Times, instances: Sequence[Instance], threads: int, policy: str, seed: int
    ) -> None:
        self._instances, self._choice = instances, POLICIES[policy](len(instances))
        self._counts = [0] * len(instances)
        self._draw = random.Random(seed)
        self._machine = Machine(simulation, threads)
        self._threads = [Front(times.balancer) for _ in range(threads)]
        self._machine.processes.extend((thread, self._send) for thread in self._threads)

    def add(self, request: Request) -> None:
        self._machine.add(min(self._threads, key=lambda thread: len(thread.queue)), request)

    def _send(self, request: Request) -> None:
        number = self._choice(self._counts, self._draw)
        answered = request.done

        def done(now: float) -> None:
            self._count(number, -1)
            answered(now)

        request.done = done
        self._count(number, 1)
        self._instances[number].add(request)

    def _count(self, number: int, change: int) -> None:
        self._counts[number] += change
        self._choice.changed(number, self._counts[number])
