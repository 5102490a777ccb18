"""One thread that owns the models and takes turns: admit, step, hand back. The event loop only waits for it.

Knows token ids, queue and batches. Which text they are is `app.translator`'s; who is next, `app.scheduler`'s.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, perf_counter
from typing import Protocol

from app.errors import StepFailed, Unavailable
from app.metrics import Metrics
from app.scheduler import Job, Scheduler, cost
from model.bundle import Bundle, check_samples
from model.decoding import DecodeBatch, Hypothesis

ROWS = {"cpu": 64, "cuda": 256}
"""Sentences decoded together."""
log = logging.getLogger(__name__)


class Decoder(Protocol):
    """Whatever decodes jobs: an Engine, or what stands in for one in tests."""

    async def decode(self, job: Job[Hypothesis]) -> None: ...


class Engine:
    """Decodes the sentences of many requests together.

    `failure` is None while it works. It stops for good if a bundle's samples come out wrong or its thread dies;
    then every request, waiting and to come, gets Unavailable with the reason.
    """

    def __init__(
        self,
        bundles: Sequence[Bundle],
        scheduler: Scheduler[Hypothesis],
        metrics: Metrics,
        rows: int | None = None,
    ) -> None:
        self.scheduler, self.metrics = scheduler, metrics
        self.ready = False
        self.failure: str | None = None
        self._bundles = bundles
        self._rows = rows
        self._batches = {bundle.name: self._new_batch(bundle) for bundle in bundles}
        self._jobs: dict[Hypothesis, Job[Hypothesis]] = {}  # of what is being decoded; the thread's own
        self._futures: dict[Job[Hypothesis], asyncio.Future[None]] = {}
        self._changed = threading.Condition()  # guards the scheduler, the futures and what follows
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        metrics.queue_sentences.set_function(lambda: scheduler.waiting)
        metrics.queue_tokens.set_function(lambda: scheduler.waiting_tokens)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finishes what was accepted, then ends the thread. Blocks."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    async def decode(self, job: Job[Hypothesis]) -> None:
        """Returns when every sentence of `job` is finished or in `job.errors`. Cancelling drops the job.

        Raises TooMuchText and Unavailable, which Overloaded is.
        """
        if not job.sentences:
            return
        with self._changed:
            if self.failure or self._stopping:
                raise Unavailable(self.failure or "The service is stopping.")
            self.scheduler.add(job)
            future = self._futures[job] = asyncio.get_running_loop().create_future()
            self._changed.notify()
        try:
            await future
        except asyncio.CancelledError:
            with self._changed:
                self.scheduler.cancel(job)
                self._futures.pop(job, None)
            raise

    def _run(self) -> None:
        try:
            for bundle in self._bundles:
                check_samples(bundle)
            self.ready = True
            while self._wait_for_work():
                for bundle in self._bundles:
                    self._turn(bundle)
        except BaseException as error:
            log.critical("the engine stopped", exc_info=error)
            self._fail_everything(f"The engine has stopped: {type(error).__name__}: {error}")

    def _wait_for_work(self) -> bool:
        """Blocks until there is some; False if there never will be again."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self.scheduler.waiting or self._stopping)
            return bool(self._jobs or self.scheduler.waiting)

    def _turn(self, bundle: Bundle) -> None:
        started = perf_counter()
        batch = self._batches[bundle.name]
        self._forget(batch.remove([h for h in batch.running if self._jobs[h].cancelled]))
        self._admit(batch, bundle.name)
        if not batch.running:
            return
        self.metrics.rows.labels(bundle.name).observe(len(batch.running))
        try:
            finished = batch.step()
        except Exception as error:
            self._fail(batch.running, error)
            self._batches[bundle.name] = self._new_batch(bundle)
            return
        self._finish(finished, bundle.name)
        seconds = perf_counter() - started
        self.metrics.step_seconds.labels(bundle.name).observe(seconds)
        with self._changed:
            self.scheduler.throughput.note(sum(map(cost, finished)), seconds)

    def _admit(self, batch: DecodeBatch, model: str) -> None:
        with self._changed:
            taken = self.scheduler.take(model, batch.free, batch.rows)
        if not taken:
            return
        self._jobs.update(taken)
        now = monotonic()
        for _, job in taken:
            self.metrics.queue_seconds.observe(now - job.arrived)
        try:
            batch.admit([hypothesis for hypothesis, _ in taken])
        except Exception as error:
            batch.remove([hypothesis for hypothesis, _ in taken if hypothesis in batch.running])
            self._fail([hypothesis for hypothesis, _ in taken], error)

    def _finish(self, finished: Sequence[Hypothesis], model: str) -> None:
        self.metrics.sentences.labels(model).inc(len(finished))
        self.metrics.tokens.labels(model, "source").inc(sum(len(h.source) + 1 for h in finished))
        self.metrics.tokens.labels(model, "target").inc(sum(len(h.tokens) for h in finished))
        self._settle(finished)

    def _fail(self, hypotheses: Sequence[Hypothesis], error: Exception) -> None:
        log.error("a step with %d sentences failed", len(hypotheses), exc_info=error)
        for hypothesis in hypotheses:
            self._jobs[hypothesis].errors[hypothesis] = StepFailed(StepFailed.example)
        self._settle(hypotheses)

    def _settle(self, hypotheses: Iterable[Hypothesis]) -> None:
        """Counts them as done; a job with none left is handed back."""
        for hypothesis in list(hypotheses):
            job = self._jobs.pop(hypothesis)
            job.unfinished -= 1
            if not job.unfinished:
                self._resolve(job, lambda future: future.set_result(None))

    def _forget(self, hypotheses: Iterable[Hypothesis]) -> None:
        for hypothesis in hypotheses:
            del self._jobs[hypothesis]

    def _fail_everything(self, reason: str) -> None:
        with self._changed:
            self.ready, self.failure = False, reason
            self.scheduler.clear()
            jobs = list(self._futures)
        for job in jobs:
            self._resolve(job, lambda future: future.set_exception(Unavailable(reason)))

    def _resolve(self, job: Job[Hypothesis], outcome: Callable[[asyncio.Future[None]], None]) -> None:
        with self._changed:
            future = self._futures.pop(job, None)
        if future is not None:  # the client may have left
            future.get_loop().call_soon_threadsafe(lambda: None if future.done() else outcome(future))

    def _new_batch(self, bundle: Bundle) -> DecodeBatch:
        rows = self._rows or ROWS[bundle.model.output.weight.device.type]
        return DecodeBatch(bundle.model, rows, bundle.limits)
