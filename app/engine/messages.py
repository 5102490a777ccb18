"""The messages between the front and a worker, typed, as MessagePack.

    front to worker   first  WorkerConfig, then Assignments
    worker to front   first  LoadResult, then StepReports

Reading a message of any other type raises msgspec.ValidationError.
"""

from __future__ import annotations

from msgspec import Struct, field

from app.engine.sequence import Decoded, Sequence
from model.model_spec import ModelSpec


class WorkerConfig(Struct, frozen=True, array_like=True, tag=True):
    """What a worker loads: models, device, precision, the instruction set for int8, and the engine on a GPU."""

    models: list[ModelSpec]
    device: str
    precision: str
    threads: int
    rows: int
    """Sentences decoded together; 0: the device's default."""
    isa: str = "auto"
    """See `model.int8.isa`."""
    memory_bytes: int | None = None
    """Limit on the weights that are loaded, see `app.engine.loaded_models`; None: all models stay loaded."""
    gpu_engine: str = "graph"
    """"graph" or "triton"; see docs/engine.md."""


class Task(Struct, frozen=True, array_like=True):
    """A sequence for a worker. `lane`: which one of `app.engine.waiting_queue.WaitingQueue` it joins."""

    number: int
    lane: int
    sequence: Sequence


class Assignments(Struct, frozen=True, array_like=True, tag=True):
    """What a worker has to do, in this order: drop cancelled tasks, unload models, accept new tasks.

    A worker loads the model of a task if it has not. It holds no task of a model that it unloads.
    """

    tasks: list[Task]
    cancelled: list[int]
    """Numbers of tasks."""
    unloaded: list[str] = []


class LoadResult(Struct, frozen=True, array_like=True, tag=True):
    """What a worker has loaded and checked. If `failure` is not empty, loading failed and the worker exits."""

    failure: str
    rows: int = 0
    precisions: dict[str, str] = {}
    """By bundle name."""
    weight_bytes: dict[str, int] = {}
    """Memory that the weights take, by bundle name."""


class Result(Struct, frozen=True, array_like=True):
    """A finished task. `waited`: seconds in the worker until it got a row."""

    number: int
    waited: float
    decoded: Decoded


class Step(Struct, frozen=True, array_like=True):
    """One decoder step of a bundle's batch of `rows` rows."""

    model: str
    rows: int
    seconds: float


class StepReport(Struct, array_like=True, tag=True):
    """The outcome of the steps since the last report."""

    results: list[Result] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """Numbers of tasks whose step failed."""
    steps: list[Step] = field(default_factory=list)


ToWorker = WorkerConfig | Assignments
ToFront = LoadResult | StepReport
