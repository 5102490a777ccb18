"""What the front and a worker say to each other: typed messages, as MessagePack over their socket.

    front to worker   first  WorkerConfig, then Assignments
    worker to front   first  LoadResult, then StepReports

A message that is not of these types raises msgspec.ValidationError where it is read.
"""

from __future__ import annotations

from msgspec import Struct, field

from app.engine.sequence import Decoded, Sequence


class WorkerConfig(Struct, frozen=True, array_like=True, tag=True):
    """What a worker has to load: bundles as (folder, name), a device, a precision."""

    bundles: list[tuple[str, str]]
    device: str
    precision: str
    threads: int
    rows: int
    """Sentences decoded together; 0: what suits the device."""


class Task(Struct, frozen=True, array_like=True):
    """A sequence for a worker. `priority`: which lane of `app.engine.waiting_queue.WaitingQueue` it joins."""

    number: int
    priority: bool
    sequence: Sequence


class Assignments(Struct, frozen=True, array_like=True, tag=True):
    """Tasks to do, and the numbers of those that nobody waits for any more."""

    tasks: list[Task]
    cancelled: list[int]


class LoadResult(Struct, frozen=True, array_like=True, tag=True):
    """What a worker has loaded. If `failure` is not empty it could not, and ends."""

    failure: str
    rows: int = 0
    precisions: dict[str, str] = {}
    """By bundle name."""


class Result(Struct, frozen=True, array_like=True):
    """A task that is done; it waited so many seconds in the worker for a row."""

    number: int
    waited: float
    decoded: Decoded


class Step(Struct, frozen=True, array_like=True):
    """One step of a bundle's batch, of so many rows."""

    model: str
    rows: int
    seconds: float


class StepReport(Struct, array_like=True, tag=True):
    """What came of the last turns."""

    results: list[Result] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """Numbers of tasks whose step failed."""
    steps: list[Step] = field(default_factory=list)


ToWorker = WorkerConfig | Assignments
ToFront = LoadResult | StepReport
