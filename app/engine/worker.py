"""A worker process: loads and checks every bundle, and loops - admit, step, report - until the front closes the
connection."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from time import perf_counter

from app.engine.executor import BundleExecutor, DecodingTask
from app.engine.hypotheses import decoded_of, hypothesis_of
from app.engine.ipc import FrontConnection
from app.engine.messages import Assignments, LoadResult, Result, Step, StepReport, WorkerConfig
from app.runtime.json_logs import log_to_stderr
from model.backends import load_backend
from model.bundle_files import BundleError
from model.machine import keep_freed_memory

ROWS = {"cpu": 64, "cuda": 256}
"""Sentences decoded together. More would gain almost nothing in throughput, and each sentence waits for all others."""
ROWS_INT8, ROWS_TRITON = 32, 1024
MIN_REPORT_INTERVAL_S = 0.004
"""Minimum time between reports while sentences wait for rows: each message wakes the front."""
MAX_REPORT_INTERVAL_S = 1.0
"""Time after which steps alone are reported, so that a worker of a large model on a slow processor is not taken for one
that hangs."""
log = logging.getLogger(__name__)


def is_due(report: StepReport, sent_at: float, has_waiting: bool) -> bool:
    """Whether to send the report now. Results wait for others a moment if sentences wait; steps alone wait longer."""
    silent_s = perf_counter() - sent_at
    if not (report.results or report.failures):
        return len(report.steps) >= 64 or (bool(report.steps) and silent_s >= MAX_REPORT_INTERVAL_S)
    return not has_waiting or silent_s >= MIN_REPORT_INTERVAL_S


class Models:
    """The models of a worker's configuration, and the executors of those that are loaded, by bundle name."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._specs = {spec.name: spec for spec in config.models}
        self.executors: dict[str, BundleExecutor] = {}
        self.precisions: dict[str, str] = {}
        self.engines: dict[str, str] = {}
        self.weight_bytes: dict[str, int] = {}
        self.rows = 0
        """Of the largest batch."""

    def load(self, name: str) -> BundleExecutor:
        """The executor of the model `name`, which is loaded unless it is. Raises BundleError, and ValueError for a
        precision that the device does not offer."""
        if name not in self.executors:
            spec, config = self._specs[name], self._config
            backend = load_backend(spec, config.device, config.precision, config.isa, config.threads, config.gpu_engine)
            rows = ROWS_TRITON if backend.engine == "triton" else ROWS[config.device]
            if backend.precision == "int8":
                rows = ROWS_INT8
            self.executors[name] = BundleExecutor(backend, spec, config.rows or rows)
        return self.executors[name]

    def unload(self, name: str) -> None:
        """Frees a model, which has no tasks. Does nothing if it is not loaded."""
        self.executors.pop(name, None)

    def check(self) -> None:
        """Loads each model once, checks its samples, and unloads it if the configuration has a limit.

        Raises BundleError, in one line, also for a bundle that is not the configured one or gives wrong results.
        """
        limit = self._config.memory_bytes
        for name in self._specs:
            executor = self.load(name)
            executor.check_samples()
            self.rows = max(self.rows, executor.rows)
            self.precisions[name] = executor.backend.precision
            self.engines[name] = executor.backend.engine
            self.weight_bytes[name] = size = executor.backend.weight_bytes
            if self._config.device == "cpu":  # a GPU keeps what the first steps have set up
                executor.release_batch()
            if limit is not None:
                if size > limit:
                    raise BundleError(f"{name} takes {size:,} bytes, more than INTERLINEAR_MEMORY_BYTES={limit}")
                del executor
                self.unload(name)


class WorkerLoop:
    """Runs the models' executors in turn, on the tasks that the front assigns."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._tasks: dict[int, tuple[BundleExecutor, DecodingTask]] = {}
        self._failed: list[int] = []
        """Numbers of the tasks whose model could not be loaded."""

    @property
    def busy(self) -> bool:
        return bool(self._tasks or self._failed)

    @property
    def has_waiting(self) -> bool:
        """Whether sentences wait for rows."""
        return any(executor.has_waiting for executor in self._models.executors.values())

    def accept(self, message: Assignments) -> None:
        for number in message.cancelled:
            if number in self._tasks:  # otherwise it has ended meanwhile
                executor, task = self._tasks.pop(number)
                executor.remove(task)
        for name in message.unloaded:
            self._models.unload(name)
        for given in message.tasks:
            sequence = given.sequence
            try:
                executor = self._models.load(sequence.model)
            except (OSError, ValueError) as error:  # the folder has been deleted, or has another bundle
                log.critical("%s cannot be loaded: %s", sequence.model, error)
                self._failed.append(given.number)
                continue
            # Only in tests is a batch narrower than a beam.
            hypothesis = hypothesis_of(sequence, min(sequence.beam_size, executor.rows))
            self._tasks[given.number] = executor, DecodingTask(given.number, hypothesis, given.lane)
            executor.add(self._tasks[given.number][1])

    def step(self, report: StepReport) -> None:
        """Runs one step of every bundle that has work, and adds the outcome to `report`."""
        report.failures += self._failed
        self._failed = []
        for model, executor in self._models.executors.items():
            if executor.busy:
                self._step(model, executor, report)

    def _step(self, model: str, executor: BundleExecutor, report: StepReport) -> None:
        started = perf_counter()
        finished, failed = executor.step()
        report.results += [Result(task.number, task.waited, decoded_of(task.hypothesis)) for task in finished]
        report.failures += [task.number for task in failed]
        if executor.steps:
            seconds = (perf_counter() - started) / len(executor.steps)
            report.steps += [Step(model, rows, seconds) for rows in executor.steps]
        for task in (*finished, *failed):
            del self._tasks[task.number]


def work(front: FrontConnection, on_loaded: Callable[[], object] = lambda: None) -> None:
    """Loads the bundles that the front asks for, reports the result, and serves until the front is gone."""
    first = front.receive(wait=True)
    while first == []:
        first = front.receive(wait=True)
    if first is None:
        return
    [config] = first
    assert isinstance(config, WorkerConfig)
    try:
        models = Models(config)
        models.check()
    except Exception as error:
        failure = (str(error) or repr(error)).splitlines()[0]  # CUDA's messages have several lines
        log.critical("the worker cannot serve: %s", failure, exc_info=not isinstance(error, ValueError))
        front.send(LoadResult(failure))
        return
    if not front.send(LoadResult("", models.rows, models.precisions, models.weight_bytes)):
        return
    on_loaded()
    # All objects so far stay. Collecting garbage among PyTorch's would stop every sentence for 0.1 s.
    gc.freeze()
    loop, report, sent = WorkerLoop(models), StepReport(), 0.0
    while (messages := front.receive(wait=not loop.busy)) is not None:
        if not loop.busy:
            sent = perf_counter()
        for message in messages:
            assert isinstance(message, Assignments)
            loop.accept(message)
        try:
            loop.step(report)
        except BundleError as error:  # the front gives the tasks to another worker
            log.critical("the worker stops: %s", error)
            return
        if is_due(report, sent, loop.has_waiting):
            if not front.send(report):
                return
            report, sent = StepReport(), perf_counter()


def main(descriptor: int) -> None:
    """Serves on the socket that this process inherited."""
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole process group; the front decides when to exit
        signal.signal(number, signal.SIG_IGN)
    log_to_stderr()
    with socket.socket(fileno=descriptor) as end:
        work(FrontConnection(end), on_loaded=keep_freed_memory)
    # Skips the interpreter's shutdown: there is nothing to save, and libraries' threads make it slow.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
