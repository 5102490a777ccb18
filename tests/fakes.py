"""Fake decoders for tests: given translations, random weights, and results that arrive on demand."""

from __future__ import annotations

import asyncio
import selectors
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from time import monotonic
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

from app.engine.cache import Cache
from app.engine.engine import Decoder
from app.engine.registry import Catalogue
from app.engine.scheduler import Job
from app.errors import ServiceError
from app.markup.passage import Piece
from app.runtime.metrics import Metrics
from app.settings import Settings
from app.translation.translator import Translator
from app.translation.types import Options, Translated
from model.bundle import Bundle
from model.config import ModelConfig
from model.decoding import TorchRunner
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer

ROWS = 64
PROSE = "the cat sleeps and how are you i am well thank hello le chat dort il va bien bonjour"
WORDS = PROSE.split()
"""What the bundle's vocabulary spells in few tokens."""


class Given:
    """Every sentence becomes the text that `target` makes of its text; without one, itself, symbols included.

    Of one that is to begin with a prefix that is all. Token n attends to source token n, and all are looked at.
    `log_prob`: of each token; by default a translation looks weak, and of a word or two not quite unsure.
    """

    def __init__(self, bundle: Bundle, target: Callable[[str], str] | None = None, log_prob: float = -0.75) -> None:
        self.bundle, self.target, self.log_prob = bundle, target, log_prob

    async def decode(self, job: Job[Hypothesis]) -> None:
        tokenizer = self.bundle.tokenizer
        for hypothesis in job.sentences:
            text = tokenizer.decode(hypothesis.source)
            made = tokenizer.encode(self.target(text)) if self.target else hypothesis.source
            last = max(0, len(hypothesis.source) - 1)
            hypothesis.tokens = [*(hypothesis.prefix or made), tokenizer.eos_id]
            hypothesis.log_probs = [self.log_prob] * len(hypothesis.tokens)
            hypothesis.aligned = [min(place, last) for place in range(len(hypothesis.tokens))]
            hypothesis.looked = [1.0] * (len(hypothesis.source) + 1)
            hypothesis.finish_reason = "stop"


class Wild:
    """Decodes every job with one random model, so scaled that what it yields varies, and that some of it ends.

    It yields what belongs to no word as well, bytes and symbols, unless it has `manners`.
    """

    def __init__(self, bundle: Bundle, manners: bool = True) -> None:
        tokenizer = bundle.tokenizer
        pieces = list(map(tokenizer.piece, range(tokenizer.vocab_size)))
        rude = [id for id, piece in enumerate(pieces) if piece[0] == "<" and id != tokenizer.eos_id]
        model = wild_model(tokenizer.vocab_size, rude if manners else ())
        self.limits, self.runner = bundle.limits, TorchRunner(model)
        self.decoded: list[Hypothesis] = []

    async def decode(self, job: Job[Hypothesis]) -> None:
        batch = self.runner.new_batch(ROWS, self.limits)
        waiting = sorted(job.sentences, key=lambda hypothesis: -hypothesis.limit)
        self.decoded += waiting
        while waiting or batch.running:
            admitted = list(_fitting(waiting, batch.free))
            if admitted:
                batch.admit(admitted)
            del waiting[: len(admitted)]
            batch.step()


def _fitting(waiting: Sequence[Hypothesis], free: int) -> Iterator[Hypothesis]:
    for hypothesis in waiting:
        free -= hypothesis.width
        if free < 0:
            return
        yield hypothesis


def wild_model(vocab_size: int, unwanted: Sequence[int]) -> Transformer:
    shape = {"d_model": 32, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig.from_dict(
        {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size, "share_embeddings": "none", **shape}
    )
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = Transformer(config).eval()
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.weight.mul_(2)
        model.output.weight[config.eos_id].mul_(2)
        model.output.weight[list(unwanted)] = 0.0
    return model


def translated(
    bundle: Bundle, engine: Decoder, items: Sequence[str | Sequence[Piece]], **options: object
) -> list[Translated]:
    """Each item's translation through a Translator, all in one request."""
    settings = Settings(queue_tokens=10**7, max_text_chars=10**6, max_items=10**4, deadline_ms=600_000)
    translator = Translator(Catalogue([bundle]), engine, settings)
    chosen = Options(bundle.source, bundle.target, **options)  # type: ignore[arg-type]
    return asyncio.run(translator.translate(items, chosen)).items


def expecting_end_marks(bundle: Bundle) -> Bundle:
    """The same, of a model that learnt from whole sentences alone."""
    training = {**bundle.config["training"], "sources_with_end_marks": 1.0}
    return replace(bundle, config={**bundle.config, "training": training})


def roomy(limits: Limits) -> Limits:
    """The same, for long sentences."""
    return Limits(max_source=256, max_target=256, ratio=limits.ratio, margin=limits.margin)


P = ParamSpec("P")
T = TypeVar("T")
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


class _Jump(selectors.DefaultSelector):
    """Waits for nothing: the time for which it would have waited is over at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(timeout and 0)


class _VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, without threads, on an event loop where time passes only while all tasks wait for it."""
    with asyncio.Runner(loop_factory=_VirtualTime) as runner:
        return runner.run(work)


def counted(metrics: Metrics) -> tuple[int, int, int]:
    """Hits, joined, misses."""
    values = (
        metrics.registry.get_sample_value("interlinear_cache_sentences_total", {"result": result})
        for result in ("hit", "joined", "miss")
    )
    hit, joined, miss = (int(value or 0) for value in values)
    return hit, joined, miss
