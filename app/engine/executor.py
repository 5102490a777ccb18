"""One bundle in a worker: its running batch, and who breaks a step is found and fails alone.

Knows token ids and batches; nothing of messages.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

from app.engine.waiting_queue import WaitingQueue
from model.bundle_weights import LoadedBundle
from model.decoding.batch import Backend, Batch
from model.hypothesis import Hypothesis

log = logging.getLogger(__name__)


@dataclass(eq=False)
class DecodingTask:
    """A sentence as the front gave it. `arrived` and `waited`: seconds, until it got its row."""

    number: int
    hypothesis: Hypothesis
    priority: bool
    arrived: float = field(default_factory=perf_counter)
    waited: float = 0.0

    @property
    def source(self) -> Sequence[int]:
        return self.hypothesis.source

    @property
    def beam_size(self) -> int:
        return self.hypothesis.beam_size

    def restart(self) -> None:
        """Nothing of a decoding that broke down is kept."""
        self.hypothesis = self.hypothesis.without_result()


class BundleExecutor:
    """One bundle in a worker: its running batch, who waits for it, and who is suspected of having broken it."""

    def __init__(self, backend: Backend, bundle: LoadedBundle, rows: int) -> None:
        """Of `bundle` it keeps limits and samples; the backend has the weights in a form of its own."""
        self.backend, self.rows = backend, rows
        self.limits, self.samples = bundle.limits, bundle.samples
        self._batch = self.new_batch()
        self._waiting: WaitingQueue[DecodingTask] = WaitingQueue()
        self._suspects: list[WaitingQueue[DecodingTask]] = []
        self._running: dict[Hypothesis, DecodingTask] = {}

    @property
    def busy(self) -> bool:
        return bool(self._running or len(self._waiting) or self._suspects)

    @property
    def has_waiting(self) -> bool:
        return len(self._waiting) > 0

    def add(self, task: DecodingTask) -> None:
        self._waiting.add(task, task.priority)

    def remove(self, task: DecodingTask) -> None:
        """Frees the place of a sentence that nobody waits for any more."""
        if self._running.pop(task.hypothesis, None):
            self._batch.remove([task.hypothesis])
        else:
            assert any(queue.remove(task) for queue in (self._waiting, *self._suspects))

    def step(self) -> tuple[list[DecodingTask], list[DecodingTask]]:
        """Admits, and makes one step for all. Returns the finished tasks and those that cannot be done.

        A step that fails has failed for somebody: all begin again in fresh rows, in halves, one half at a time, until
        who breaks it is alone. Decoding gives the same however often it is done and with whomever.
        """
        joining = self._take_joining()
        try:
            if joining:
                self._batch.admit([task.hypothesis for task in joining])
            self._running.update((task.hypothesis, task) for task in joining)
            finished = self._batch.step() if self._running else []
        except Exception as error:
            return [], self._isolate(joining, error)
        done = [self._running.pop(hypothesis) for hypothesis in finished]
        broken = [task for task in done if not math.isfinite(sum(task.hypothesis.log_probs))]
        if broken:
            self._isolate_nonfinite(broken)
        return [task for task in done if task not in broken], broken

    def _take_joining(self) -> list[DecodingTask]:
        """Who is admitted now. While there are suspects, they alone, and one group of them after the other."""
        while self._suspects and not self._suspects[-1] and not self._running:
            self._suspects.pop()
        queue = self._suspects[-1] if self._suspects else self._waiting
        joining = queue.take(self._batch.free, self.rows)
        now = perf_counter()
        for task in joining:
            task.waited = now - task.arrived
        return joining

    def _isolate(self, joining: list[DecodingTask], error: Exception) -> list[DecodingTask]:
        """Divides those whose turn failed; returns the culprit once it is found."""
        running = [task for task in self._running.values() if task not in joining]
        log.error("a turn with %d + %d sentences failed", len(running), len(joining), exc_info=error)
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
        """Raises BundleError, or whatever fails, unless the samples come out as on export; while nobody is inside.

        It is the batch that serves in which they are translated: what a device sets up in a batch's first steps is
        there before the first sentence. And who fails alone may be the culprit, or the first to notice that nothing
        works any more, such as a lost GPU: then this ends the worker.
        """
        self.samples.check(self._batch)

    def _isolate_nonfinite(self, broken: list[DecodingTask]) -> None:
        """A row of NaN spoils whoever gets that row next: the others begin again in fresh ones."""
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
        del self._batch  # a GPU that ran out of memory has no room for two
        self._batch = self.new_batch()

    def new_batch(self) -> Batch:
        return self.backend.new_batch(self.rows, self.limits)

    @property
    def size(self) -> int:
        """Sentences in rows."""
        return len(self._running)
