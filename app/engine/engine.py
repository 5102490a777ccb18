"""The front process's half of the engine: sends sequences to workers, returns their results, and restarts workers.

Runs on the event loop and never blocks it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Literal, Protocol

from app.engine.job import Job
from app.engine.launch import Launch, Worker, launch_worker
from app.engine.messages import Assignments, LoadResult, Result, Task, ToFront, WorkerConfig
from app.engine.scheduler import Scheduler, WorkerCapacity
from app.engine.sequence import Decoded, Sequence
from app.engine.worker_connection import WorkerConnection
from app.errors import StepFailed, Unavailable
from app.runtime.metrics import Metrics, ModelSeries
from app.runtime.process_memory import proportional_set_size
from app.runtime.supervision import SUPERVISION, Supervision

log = logging.getLogger(__name__)


class Decoder(Protocol):
    """Anything that decodes sequences: an Engine, a CachingDecoder in front of one, or a fake in tests."""

    async def decode(
        self, sequences: list[Sequence], deadline: float, client: str = "", continues: bool = False
    ) -> list[Future[Decoded]]:
        """Decodes the sequences of one request. Returns a future for each, in order, once they are accepted.

        `deadline`: in seconds, on the clock of `time.monotonic`. `client`: whose request it is; clients take turns.
        `continues`: more of a request that has been accepted; it is not refused, and alternates with the client's new
        requests. If one sequence fails, its future has a ServiceError. Cancelling a future, or a task that awaits it,
        cancels that sequence. Raises TooMuchText, Overloaded and other forms of Unavailable.
        """
        ...


class WorkerSlot:
    """The place of one worker, which may be restarted any number of times."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: Literal["starting", "working", "ending", "dead"] = "starting"
        """"ending": the connection is closed, the process may still run. "dead": also while its replacement starts."""
        self.failure: str | None = None
        """Why it does not work; None if it works or starts for the first time."""
        self.connection: WorkerConnection | None = None
        self.worker: Worker | None = None
        self.tasks: list[Task] = []
        self.cancelled: list[int] = []
        self.began_s, self.deaths = 0.0, 0
        """When its worker was started, and how many died in a row before."""
        self.returns = False
        """Whether it has worked, and is started again at once: requests wait for it."""
        self.silent_checks = 0
        """Consecutive checks at which the worker had work, or was loading, and had not sent anything."""

    def connect(self, connection: WorkerConnection, worker: Worker) -> None:
        self.connection, self.worker = connection, worker

    def memory_bytes(self) -> float:
        """The proportional set size of the worker's process; NaN if there is none."""
        pid = self.worker.pid if self.worker and self.state != "dead" else None
        return math.nan if pid is None else proportional_set_size(pid)


class Engine:
    """Decodes the sentences of many requests together, in `workers` workers.

    `ready` once each has started or failed, as long as at least one works; `failure` has the reason otherwise.
    """

    def __init__(
        self,
        config: WorkerConfig,
        scheduler: Scheduler,
        metrics: Metrics,
        launch: Launch,
        workers: int = 1,
        *,
        supervision: Supervision = SUPERVISION,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.scheduler, self.metrics, self.supervision = scheduler, metrics, supervision
        self.precisions: dict[str, str] = {}
        """The precision of each bundle, by name, as workers report it."""
        self.device = config.device
        self._config, self._launch, self._sleep = config, launch, sleep
        self._series = {spec.name: ModelSeries(metrics, spec.name) for spec in config.models}
        self._source_ends = {spec.name: spec.architecture.source_ends for spec in config.models}
        self._slots = [WorkerSlot(number) for number in range(workers)]
        self._supervisors: list[asyncio.Task[None]] = []
        self._watcher: asyncio.Task[None] | None = None
        self._flush_is_due = False
        self._stopping = False
        self._idle = asyncio.Event()
        """Set during the shutdown, once every accepted job has ended."""
        self._all_started = asyncio.Event()

    @property
    def failure(self) -> str | None:
        """The reason of the first worker that does not work."""
        return next((slot.failure for slot in self._slots if slot.failure), None)

    @property
    def alive(self) -> int:
        """The number of workers that are loaded and connected."""
        return sum(slot.state == "working" for slot in self._slots)

    @property
    def ready(self) -> bool:
        return self.alive > 0 and all(slot.state != "starting" for slot in self._slots)

    def observe_quality(self, model: str, quality: float) -> None:
        """Counts a translation in the histogram of its model's qualities."""
        self._series[model].quality.observe(quality)

    def publish_metrics(self) -> None:
        """Points the gauges of queue and workers at this engine."""
        self.metrics.queue_sentences.set_function(lambda: self.scheduler.waiting)
        self.metrics.queue_tokens.set_function(lambda: self.scheduler.waiting_tokens)
        self.metrics.workers.set_function(lambda: self.alive)
        self.metrics.workers_wanted.set(len(self._slots))
        self.metrics.load.workers = lambda: self.alive
        self.metrics.models_loaded.set_function(lambda: self.scheduler.models.loaded)
        for slot in self._slots:
            self.metrics.worker_memory.labels(str(slot.number)).set_function(slot.memory_bytes)

    async def wait_started(self) -> bool:
        """Waits until each worker has started or failed. Returns whether all have started."""
        await self._all_started.wait()
        return self.alive == len(self._slots)

    @property
    def _can_accept(self) -> bool:
        """Whether a worker works, is starting for the first time, or returns."""
        return any(slot.state in ("starting", "working") or slot.returns for slot in self._slots)

    def tokens_per_second(self, model: str) -> float:
        """Recent target tokens per second of the bundle named `model`."""
        return self._series[model].tokens_per_second.mean()

    async def start(self) -> None:
        """Starts the workers, without waiting until they are ready."""
        self._supervisors = [asyncio.create_task(self._supervise(slot)) for slot in self._slots]
        self._watcher = asyncio.create_task(self._kill_hanging())

    async def stop(self) -> None:
        """Finishes all accepted jobs, then stops the workers."""
        self._stopping = True
        if not self.scheduler.is_empty:
            await self._idle.wait()
        if self._watcher:
            self._watcher.cancel()
        for supervisor, slot in zip(self._supervisors, self._slots, strict=True):
            if not slot.connection or not slot.worker:
                supervisor.cancel()  # it is waiting before a restart
            elif slot.state == "working":
                slot.connection.close()
            else:
                slot.worker.kill()  # it has no work yet, and would notice the closed connection only once loaded
        await asyncio.gather(*self._supervisors, return_exceptions=True)

    async def decode(
        self, sequences: list[Sequence], deadline: float, client: str = "", continues: bool = False
    ) -> list[Future[Decoded]]:
        """See `Decoder`."""
        jobs = [Job(sequence, deadline) for sequence in sequences]
        self.submit(jobs, client, continues)
        return [job.new_future() for job in jobs]

    def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
        """Queues the jobs of one request. No job ends before this returns; a job without waiting futures is dropped.

        Raises TooMuchText, Overloaded and other forms of Unavailable, and then queues none.
        """
        if not jobs:
            return
        if self._stopping:
            raise Unavailable("The service is stopping.")
        if not self._can_accept:
            raise Unavailable(self.failure or "No worker is running.")
        self.scheduler.add(jobs, client, continues)
        self.metrics.load.add_accepted()
        for job in jobs:
            job.on_drop = self._drop
        self._flush_soon()

    def _drop(self, job: Job) -> None:
        if self.scheduler.cancel(job):
            self._slots[job.worker].cancelled.append(job.number)
        self._flush_soon()

    # ---- Messages to and from workers

    def _flush_soon(self) -> None:
        """Schedules a flush: all changes in one pass of the event loop become one message per worker."""
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        for job in self.scheduler.assign():
            self._slots[job.worker].tasks.append(Task(job.number, job.lane, job.sequence))
        unloaded = self.scheduler.models.take_unloaded()
        if unloaded:
            self.metrics.unloads.inc(len(unloaded))
        for slot in self._slots:
            if slot.connection and (slot.tasks or slot.cancelled or unloaded):
                slot.connection.send(Assignments(slot.tasks, slot.cancelled, unloaded))
            slot.tasks, slot.cancelled = [], []
        if self._stopping and self.scheduler.is_empty:
            self._idle.set()

    def _on_message(self, slot: WorkerSlot, message: ToFront) -> None:
        if isinstance(message, LoadResult):
            self._on_load_result(slot, message)
            return
        slot.silent_checks = 0
        for step in message.steps:
            self._series[step.model].rows.observe(step.rows)
            self._series[step.model].step_seconds.observe(step.seconds)
            self.metrics.load.add_step(step.rows, step.seconds)
        rows = sum([step.rows for step in message.steps])
        self.scheduler.decode_rate.add_steps(rows, is_busy=self.scheduler.waiting > 0)
        self._finish(message.results)
        for number in message.failures:
            if job := self.scheduler.release(number):
                job.fail(StepFailed(StepFailed.example))
        self._flush()

    def _finish(self, results: Iterable[Result]) -> None:
        finished: dict[str, list[tuple[Job, Decoded]]] = {}
        for result in results:
            if job := self.scheduler.release(result.number):
                finished.setdefault(job.sequence.model, []).append((job, result.decoded))
                self.metrics.queue_seconds.observe(job.waited + result.waited)
                self.scheduler.decode_rate.add_sequence(len(result.decoded.tokens), job.cost)
        for model, pairs in finished.items():
            lengths = [len(job.sequence.source) for job, _ in pairs]
            source_tokens = sum(lengths) + sum(map(self._source_ends[model], lengths))
            target_tokens = sum([len(decoded.tokens) for _, decoded in pairs])
            self._series[model].add_sentences(len(pairs), source_tokens, target_tokens)
            for job, decoded in pairs:
                job.finish(decoded)

    # ---- Lifecycle of workers

    async def _supervise(self, slot: WorkerSlot) -> None:
        """Runs a worker, and restarts it whenever it dies, at growing intervals if it keeps dying."""
        while True:
            slot.began_s = perf_counter()
            try:
                reason = await self._run_worker(slot)
            except Exception as error:
                reason = f"it could not be started: {error}"
            self._on_exit(slot, reason)
            if self._stopping:
                return
            delay_s = self._restart_delay_s(slot)
            slot.deaths = self._deaths_in_a_row(slot) + 1
            await self._sleep(delay_s)
            self.metrics.restarts.inc()

    def _restart_delay_s(self, slot: WorkerSlot) -> float:
        """How long to wait before the worker that dies now is started again."""
        delays_s = self.supervision.restart_delays_s
        return delays_s[min(self._deaths_in_a_row(slot), len(delays_s) - 1)]

    def _deaths_in_a_row(self, slot: WorkerSlot) -> int:
        """How many workers of the slot died soon after their start, in a row, before the one that dies now."""
        return 0 if perf_counter() - slot.began_s > self.supervision.healthy_after_s else slot.deaths

    async def _kill_hanging(self) -> None:
        """Kills workers that hang, so that others take over their work."""
        while True:
            await self._sleep(self.supervision.check_interval_s)
            limits = self.supervision
            for slot in self._slots:
                working = slot.state == "working"
                loading = slot.connection is not None and not slot.connection.closed.done()
                expected = self.scheduler.is_busy(slot.number) if working else loading
                slot.silent_checks = slot.silent_checks + 1 if expected else 0
                limit = limits.max_silent_checks if working else limits.max_silent_checks_loading
                if slot.silent_checks > limit and slot.worker and slot.connection:
                    log.critical("worker %d hangs", slot.number)
                    slot.worker.kill()
                    slot.connection.abort()  # even if it cannot be killed, it must not get more work

    async def _run_worker(self, slot: WorkerSlot) -> str:
        """Runs one worker from start to exit. Returns how it ended, in a few words."""
        slot.silent_checks = 0
        connection, worker = await launch_worker(
            self._launch, self._config, slot.connect, partial(self._on_message, slot)
        )
        if self._stopping:
            connection.close()
        await connection.closed
        self._on_disconnect(slot)
        ended = asyncio.create_task(asyncio.to_thread(worker.wait))
        await asyncio.wait({ended}, timeout=self.supervision.exit_timeout_s)
        if not ended.done():
            worker.kill()
        return await ended

    def _on_load_result(self, slot: WorkerSlot, result: LoadResult) -> None:
        if result.failure:
            slot.failure = result.failure  # it exits by itself
            return
        log.info("worker %d is ready", slot.number)
        slot.state, slot.failure, slot.returns, slot.silent_checks = "working", None, False, 0
        self.precisions = result.precisions
        self.scheduler.models.add_sizes(result.weight_bytes)
        rows = self.metrics.load.batch_rows = result.rows
        self.scheduler.add_worker(
            slot.number, WorkerCapacity(sequences=rows + rows // 4, priority_sequences=rows // 8, tokens=rows * 128)
        )
        self._check_all_started()
        self._flush()

    def _on_disconnect(self, slot: WorkerSlot) -> None:
        """Gives its work to others as soon as the connection closes, however long the process takes to exit."""
        if slot.state == "working":
            slot.state, slot.failure = "ending", None if self._stopping else "The workers have died."
            slot.returns = not self._stopping and self._restart_delay_s(slot) == 0
        self.scheduler.remove_worker(slot.number)
        self._flush()

    def _on_exit(self, slot: WorkerSlot, reason: str) -> None:
        has_worked = slot.state in ("working", "ending")
        if not self._stopping:
            log.critical("worker %d has died: %s", slot.number, reason)
            if has_worked or not slot.failure:
                slot.failure = f"The workers have died: {reason}."
        slot.state, slot.connection = "dead", None
        slot.returns = slot.returns and has_worked
        self._check_all_started()
        self.scheduler.remove_worker(slot.number)
        if (self._stopping or not has_worked) and not self._can_accept:
            self.scheduler.fail_waiting(Unavailable(self.failure or "The service is stopping."))
        self._flush()

    def _check_all_started(self) -> None:
        if all(slot.state != "starting" for slot in self._slots):
            self._all_started.set()
