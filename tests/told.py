"""A decoder that does as it is told, and requests to it: what tests of the cache are made of."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import wraps
from time import monotonic
from typing import Any, ParamSpec

from app.cache import Cache
from app.errors import ServiceError
from app.metrics import Metrics
from app.scheduler import Job
from model.hypothesis import Hypothesis

P = ParamSpec("P")
PLENTY = 1 << 20
"""Bytes for a cache."""


class Told:
    """Decodes a sentence when it is told to; then it becomes its own source. Until then they wait if it is `busy`."""

    def __init__(self) -> None:
        self.busy = False
        self.jobs: list[Job[Hypothesis]] = []
        self.refusal: ServiceError | None = None

    async def decode(self, job: Job[Hypothesis]) -> None:
        if self.refusal:
            raise self.refusal
        done = asyncio.Event()
        job.when_done = done.set
        if not self.busy:
            job.waiting.clear()
        self.jobs.append(job)
        try:
            await done.wait()
        finally:
            self.jobs.remove(job)

    @property
    def waiting(self) -> list[tuple[Job[Hypothesis], Hypothesis]]:
        return [(job, h) for job in self.jobs for h in job.sentences if not (h.finish_reason or h in job.errors)]

    def end(self, job: Job[Hypothesis], hypothesis: Hypothesis, error: ServiceError | None = None) -> None:
        if hypothesis in job.waiting:
            job.waiting.remove(hypothesis)
        if not error:
            hypothesis.tokens, hypothesis.log_probs = list(hypothesis.source), [-0.5] * len(hypothesis.source)
            hypothesis.aligned, hypothesis.looked = array("i", [0] * len(hypothesis.source)), array("f", [1.0])
            hypothesis.finish_reason = "stop"
        job.settle(hypothesis, error)

    def end_all(self, error: ServiceError | None = None) -> None:
        for job, hypothesis in self.waiting:
            self.end(job, hypothesis, error)


class Asked:
    """A request of sentences that are numbers."""

    def __init__(self, cache: Cache, *sources: int, model: str = "en-fr@1") -> None:
        self.settled: Counter[Hypothesis] = Counter()
        sentences = [Hypothesis([source], 8) for source in sources]
        self.job = Job(model, sentences, monotonic() + 60)
        self.job.when_settled = lambda sentence: self.settled.update([sentence])
        self.task = asyncio.create_task(cache.decode(self.job))

    @property
    def refused(self) -> bool:
        return self.task.cancelled() or self.task.exception() is not None

    def check(self) -> None:
        """Every sentence was told of once, and is done or has an error."""
        assert self.task.done()
        if not self.refused:
            assert self.settled == Counter(self.job.sentences)
            assert self.job.unfinished == 0
            assert [h.tokens for h in self.job.sentences] == [
                [] if h in self.job.errors else h.source for h in self.job.sentences
            ]


async def passes(number: int = 4) -> None:
    """So many of the event loop."""
    for _ in range(number):
        await asyncio.sleep(0)


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test within a time, and without an exception that the event loop alone would see."""

    async def limited(work: Coroutine[Any, Any, None]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
        async with asyncio.timeout(120):  # only ever reached by what hangs, also on a busy machine
            await work

    @wraps(test)
    def run(*args: P.args, **options: P.kwargs) -> None:
        unseen.clear()
        asyncio.run(limited(test(*args, **options)))
        assert unseen == []

    unseen: list[dict[str, Any]] = []
    return run


def counted(metrics: Metrics) -> tuple[int, int, int]:
    """Hits, joined, misses."""
    values = (
        metrics.registry.get_sample_value("interlinear_cache_sentences_total", {"result": result})
        for result in ("hit", "joined", "miss")
    )
    hit, joined, miss = (int(value or 0) for value in values)
    return hit, joined, miss
