"""One bundle in a worker: runs its batch, and isolates the sentence that makes a step fail."""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from app.engine.waiting_queue import WaitingQueue
from model.decoding.batch import Backend, Batch
from model.hypothesis import Hypothesis
from model.model_spec import ModelSpec

ROUND_STEPS = 4
"""Decoder steps between two looks at what has arrived: as many as sentences wait for others to be encoded with."""
log = logging.getLogger(__name__)


@dataclass(eq=False)
class DecodingTask:
    """A sentence from the front. `arrived` (perf_counter) and `waited`: seconds, until it got a row."""

    number: int
    hypothesis: Hypothesis
    lane: int
    arrived: float = field(default_factory=perf_counter)
    waited: float = 0.0

    @property
    def source(self) -> Sequence[int]:
        return self.hypothesis.source

    @property
    def beam_size(self) -> int:
        return self.hypothesis.beam_size

    def restart(self) -> None:
        """Discards the state of a failed decoding."""
        self.hypothesis = self.hypothesis.without_result()


class BundleExecutor:
    """The running batch of one bundle, the tasks that wait for it, and those suspected of making it fail."""

    def __init__(self, backend: Backend, spec: ModelSpec, rows: int) -> None:
        self.backend, self.spec, self.rows = backend, spec, rows
        self.steps: Sequence[int] = ()
        """The number of sentences in each decoder step that the last call of `step` took."""
        self._batch: Batch | None = None
        self._waiting: WaitingQueue[DecodingTask] = WaitingQueue(max_held_steps=ROUND_STEPS)
        self._suspects: list[WaitingQueue[DecodingTask]] = []
        self._running: dict[Hypothesis, DecodingTask] = {}

    @property
    def batch(self) -> Batch:
        """The running batch, made when it is first used."""
        if self._batch is None:
            self._batch = self.new_batch()
        return self._batch

    def release_batch(self) -> None:
        """Frees the memory of the batch, which must be empty, until it is used again."""
        self._batch = None

    @property
    def busy(self) -> bool:
        return bool(self._running or len(self._waiting) or self._suspects)

    @property
    def has_waiting(self) -> bool:
        return len(self._waiting) > 0

    def add(self, task: DecodingTask) -> None:
        self._waiting.add(task, task.lane)

    def remove(self, task: DecodingTask) -> None:
        """Cancels a task, and frees its rows."""
        if self._running.pop(task.hypothesis, None):
            self.batch.remove([task.hypothesis])
        else:
            assert any(queue.remove(task) for queue in (self._waiting, *self._suspects))

    def step(self) -> tuple[list[DecodingTask], list[DecodingTask]]:
        """Admits waiting tasks and runs decoder steps, as many as the batch takes at once. Returns the finished and the
        failed tasks.

        If the step fails, all tasks start again in fresh rows, in halves, one half after the other, until the task that
        causes the failure is alone. Retrying is safe: decoding gives the same bits in any batch.
        """
        joining, self.steps = self._take_joining(), ()
        finished: list[Hypothesis] = []
        try:
            if joining:
                self.batch.admit([task.hypothesis for task in joining])
            self._running.update((task.hypothesis, task) for task in joining)
            if self._running:
                finished = self.batch.step(*self._round())
                self.steps = self.batch.steps
        except Exception as error:
            return [], self._isolate(joining, error)
        self._queue.count_steps(len(self.steps))
        if finished:
            self.backend.check_weights()  # which ends the worker: nothing that it decodes may reach the cache
        done = [self._running.pop(hypothesis) for hypothesis in finished]
        broken = [task for task in done if not math.isfinite(sum(task.hypothesis.log_probs))]
        if broken:
            self._isolate_nonfinite(broken)
        return [task for task in done if task not in broken], broken

    @property
    def _queue(self) -> WaitingQueue[DecodingTask]:
        """The tasks that join next: one group of suspects at a time, before any others."""
        return self._suspects[-1] if self._suspects else self._waiting

    def _round(self) -> tuple[int, int]:
        """How many steps to take at most, and how many sentences must finish before others join; 0: any number."""
        group, free = max(1, self.rows // 4), self.batch.free
        if len(self._queue) < group:
            return ROUND_STEPS, 0
        return (ROUND_STEPS, group - free) if free < group else (1, 0)

    def _take_joining(self) -> list[DecodingTask]:
        """Takes the tasks to admit now."""
        while self._suspects and not self._suspects[-1] and not self._running:
            self._suspects.pop()
        joining = self._queue.take(self.batch.free, self.rows)
        now = perf_counter()
        for task in joining:
            task.waited = now - task.arrived
        return joining

    def _isolate(self, joining: list[DecodingTask], error: Exception) -> list[DecodingTask]:
        """Divides the tasks of a failed step. Returns the task that causes the failure once it is alone."""
        running = [task for task in self._running.values() if task not in joining]
        log.error("a step with %d + %d sentences failed", len(running), len(joining), exc_info=error)
        traceback.clear_frames(error.__traceback__)  # they hold the failed batch and its tensors
        self._restart_batch([*running, *joining])
        if running and joining:
            self._queue_suspects(running, joining)
            return []
        group = running or joining
        if len(group) == 1:
            self.check_samples()
            return group
        self._queue_suspects(group[: len(group) // 2], group[len(group) // 2 :])
        return []

    def check_samples(self) -> None:
        """Raises BundleError, or the error of a step, unless the samples give the same results as on export.

        The batch must be empty. The samples run in the batch that serves, so that whatever a device sets up in a
        batch's first steps is ready before the first sentence. Also called when a task fails alone: the task may be the
        cause, or the first to notice that nothing works any more, as when the GPU is lost. Then this ends the worker.
        """
        self.spec.check_samples(self.batch)

    def _isolate_nonfinite(self, broken: list[DecodingTask]) -> None:
        """Restarts the other tasks in fresh rows: a row with NaN would spoil the next sentence in it."""
        log.error("%d sentences have no finite log probability", len(broken))
        others = [task for task in self._running.values() if task not in broken]
        self._restart_batch(others)
        self._queue_suspects(others)

    def _queue_suspects(self, *groups: list[DecodingTask]) -> None:
        for group in groups:
            queue: WaitingQueue[DecodingTask] = WaitingQueue()
            for task in group:
                queue.add(task)
            self._suspects.append(queue)

    def _restart_batch(self, tasks: list[DecodingTask]) -> None:
        self._running.clear()
        for task in tasks:
            task.restart()
        self._batch = None  # now: a GPU that ran out of memory has no room for two

    def new_batch(self) -> Batch:
        return self.backend.new_batch(self.rows, self.spec.limits)

    @property
    def size(self) -> int:
        """The number of sentences in the batch."""
        return len(self._running)
