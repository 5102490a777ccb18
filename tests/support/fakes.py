"""Fake decoders for tests: given translations, random weights, and results that arrive on demand."""

from __future__ import annotations

import asyncio
import selectors
from asyncio import Future
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import cache, wraps
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

from app.engine import sequence as engine
from app.engine.cache import CachingDecoder
from app.engine.engine import Decoder
from app.engine.hypotheses import decoded_of, hypothesis_of
from app.engine.job import ClientJobs, Job, JobGroup
from app.engine.registry import Catalogue
from app.engine.sequence import Decoded
from app.errors import ServiceError
from app.markup.passage import AlignedSpan, Passage, Piece, ProtectedSpan, Tag
from app.markup.render import insertions, render_pieces
from app.runtime.metrics import Metrics
from app.settings import Settings
from app.text.tag_projection import place_tags
from app.text.word_units import AlignedWords
from app.translation.sentence import Sentence, sequence_of
from app.translation.translator import Translator
from app.translation.types import Options, TranslatedText
from model.bundle import Bundle
from model.config import ModelConfig
from model.decoding.torch_backend import TorchBackend
from model.directions import Directions
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer

ROWS = 64
PROSE = "the cat sleeps and how are you i am well thank hello le chat dort il va bien bonjour"
WORDS = PROSE.split()
"""Words that the bundle's vocabulary spells in few tokens."""


def sentence_of(passage: Passage, bundle: Bundle, ids: Sequence[int], beam_size: int = 1) -> Sentence:
    """A sentence of its own, whose passage `ids` encode."""
    return Sentence(passage, bundle, sequence_of(passage, bundle, ids, beam_size))


class FakeDecoder:
    """Base of fake decoders: delivers what `answer` returns in the event loop's next pass."""

    async def decode(
        self, sequences: list[engine.Sequence], deadline: float, client: str = "", continues: bool = False
    ) -> list[Future[Decoded]]:
        jobs = [Job(sequence, deadline) for sequence in sequences]
        self.submit(jobs)
        return [job.new_future() for job in jobs]

    def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
        answers = self.answers([job.sequence for job in jobs])
        for job, answer in zip(jobs, answers, strict=True):
            end = job.fail if isinstance(answer, ServiceError) else job.finish
            asyncio.get_running_loop().call_soon(end, answer)  # type: ignore[arg-type]

    def answers(self, sequences: list[engine.Sequence]) -> Sequence[Decoded | ServiceError]:
        """Results or errors for all sequences of a request, in order."""
        return list(map(self.answer, sequences))

    def answer(self, sequence: engine.Sequence) -> Decoded:
        raise NotImplementedError


class CannedDecoder(FakeDecoder):
    """Translates each sentence by the function `target`, or into itself, symbols included.

    A sequence with a required prefix decodes to the prefix alone. Target token n attends to source token n, and the
    coverage is complete. `log_prob` applies to each token; by default, a translation looks weak, but one of a word or
    two not quite unsure.
    """

    def __init__(self, bundle: Bundle, target: Callable[[str], str] | None = None, log_prob: float = -0.75) -> None:
        self.bundle, self.target, self.log_prob = bundle, target, log_prob

    def answer(self, sequence: engine.Sequence) -> Decoded:
        tokenizer = self.bundle.source_tokenizer
        text = tokenizer.decode(sequence.source)
        made = tokenizer.encode(self.target(text)) if self.target else sequence.source
        last = max(0, len(sequence.source) - 1)
        tokens = (*(sequence.prefix or made), tokenizer.eos_id)
        aligned = tuple(min(place, last) for place in range(len(tokens)))
        coverage = (1.0,) * (len(sequence.source) + 1)
        return Decoded(tokens, (self.log_prob,) * len(tokens), "stop", aligned, coverage)


class RandomDecoder(FakeDecoder):
    """Decodes with a random model, scaled so that its outputs vary and some of them end.

    `words_only`: never yields bytes and symbols.
    """

    def __init__(self, bundle: Bundle, words_only: bool = True) -> None:
        tokenizer = bundle.source_tokenizer
        pieces = list(map(tokenizer.piece, range(tokenizer.vocab_size)))
        rude = tuple(id for id, piece in enumerate(pieces) if piece[0] == "<" and id != tokenizer.eos_id)
        self.limits, self.backend = bundle.limits, _random_backend(tokenizer.vocab_size, rude if words_only else ())
        self.decoded: list[engine.Sequence] = []
        self.results: dict[engine.Sequence, Decoded] = {}

    def answers(self, sequences: list[engine.Sequence]) -> list[Decoded]:
        self.decoded += sequences
        new = [sequence for sequence in dict.fromkeys(sequences) if sequence not in self.results]
        self.results.update(zip(new, self._decode(new), strict=True))
        return [self.results[sequence] for sequence in sequences]

    def _decode(self, sequences: list[engine.Sequence]) -> list[Decoded]:
        batch = self.backend.new_batch(ROWS, self.limits)
        hypotheses = [hypothesis_of(sequence, sequence.beam_size) for sequence in sequences]
        waiting = sorted(hypotheses, key=lambda hypothesis: -hypothesis.limit)
        while waiting or batch.running:
            admitted = list(_fitting(waiting, batch.free))
            if admitted:
                batch.admit(admitted)
            del waiting[: len(admitted)]
            batch.step()
        return list(map(decoded_of, hypotheses))


def _fitting(waiting: Sequence[Hypothesis], free: int) -> Iterator[Hypothesis]:
    for hypothesis in waiting:
        free -= hypothesis.beam_size
        if free < 0:
            return
        yield hypothesis


@cache
def _random_backend(vocab_size: int, unwanted: tuple[int, ...]) -> TorchBackend:
    return TorchBackend(random_model(vocab_size, unwanted, decoder_layers=1))


def named_bundle(source: str, target: str) -> Any:
    """What a catalogue needs of a bundle."""
    pair = f"{source}-{target}"
    bundle = SimpleNamespace(source=source, target=target, pair=pair, folder=Path(pair))
    bundle.directions, bundle.in_direction = Directions.single(source, target), lambda *_: bundle
    return bundle


def random_model(vocab_size: int, unwanted: Sequence[int], decoder_layers: int = 2) -> Transformer:
    shape = {"d_model": 32, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": decoder_layers}
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
) -> list[TranslatedText]:
    """Translates `items` by a Translator, in one request."""
    settings = Settings(queue_tokens=10**7, max_text_chars=10**6, max_items=10**4, deadline_ms=600_000)
    translator = Translator(Catalogue([bundle]), engine, settings)
    chosen = Options(bundle.source, bundle.target, **options)  # type: ignore[arg-type]
    return asyncio.run(translator.translate(items, chosen)).items


def render_tags(
    translation: Sequence[str | ProtectedSpan],
    tags: Sequence[Tag],
    source: str,
    aligned_spans: Sequence[AlignedSpan],
    write: Callable[[str], str],
) -> str:
    """The translation of the sentence `source`, with `tags` inserted."""
    words = AlignedWords(translation, aligned_spans)
    return render_pieces(translation, insertions(place_tags(translation, tags, source, words)), write)


def translating(bundle: Bundle, source: str, target: str) -> Bundle:
    """`bundle` as one for other languages."""
    directions = Directions.single(source, target)
    return replace(bundle, directions=directions, chosen=directions.direction(source, target))


def expecting_end_marks(bundle: Bundle) -> Bundle:
    """A copy of `bundle` whose model is recorded as trained on whole sentences alone."""
    training = {**bundle.config["training"], "sources_with_end_marks": 1.0}
    return replace(bundle, config={**bundle.config, "training": training})


def roomy(limits: Limits) -> Limits:
    """A copy of `limits` that allows long sentences."""
    return Limits(max_source=256, max_target=256, ratio=limits.ratio, margin=limits.margin)


P = ParamSpec("P")
T = TypeVar("T")
PLENTY = 1 << 20
"""Bytes for a cache."""


def decoded(tokens: Sequence[int], log_prob: float = -1.0, source: int = 1) -> Decoded:
    """A result whose tokens all attend to the first of `source` source tokens."""
    return Decoded(tuple(tokens), (log_prob,) * len(tokens), "stop", (0,) * len(tokens), (1.0,) * (source + 1))


class ManualDecoder(FakeDecoder):
    """Decodes a sequence into its own source when the test calls `end`. While `busy`, sequences wait to be started."""

    def __init__(self) -> None:
        self.busy = False
        self.requests: list[list[Job]] = []
        self.refusal: ServiceError | None = None

    def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
        if not jobs:
            return
        if self.refusal:
            raise self.refusal
        group = JobGroup(jobs[0].sequence.model, ClientJobs(client))
        for place, job in enumerate(jobs):
            job.group, job.position, job.on_drop = group, place, self._remove
            job.number = -1 if self.busy else place
        group.started = 0 if self.busy else len(jobs)
        self.requests.append(list(jobs))

    @property
    def waiting(self) -> list[Job]:
        return [job for jobs in self.requests for job in jobs]

    @property
    def sources(self) -> list[list[int]]:
        """The first source token of each waiting sequence, by request."""
        return [[job.sequence.source[0] for job in jobs] for jobs in self.requests]

    def end(self, job: Job, error: ServiceError | None = None) -> None:
        self._remove(job)
        source = job.sequence.source
        if error:
            job.fail(error)
        else:
            job.finish(decoded(source, -0.5))

    def end_all(self, error: ServiceError | None = None) -> None:
        for job in self.waiting:
            self.end(job, error)

    def _remove(self, job: Job) -> None:
        for jobs in self.requests:
            if job in jobs:
                jobs.remove(job)
        self.requests = [jobs for jobs in self.requests if jobs]


class CacheRequest:
    """A request to a cache, whose sequences are numbers, and its results."""

    def __init__(self, cache: CachingDecoder, *sources: int, model: str = "en-fr@1", within_s: float = 60.0) -> None:
        self.sequences = [engine.Sequence(model, (source,), 8) for source in sources]
        self.deadline = monotonic() + within_s
        self.answers: list[Decoded | ServiceError] = []
        """Results and errors so far, in order."""
        self.task = asyncio.create_task(self._ask(cache))

    async def _ask(self, cache: CachingDecoder) -> None:
        futures = await cache.decode(self.sequences, self.deadline)
        try:
            for future in futures:
                try:
                    self.answers.append(await future)
                except ServiceError as error:
                    self.answers.append(error)
        finally:
            for future in futures:
                future.cancel()

    @property
    def refused(self) -> bool:
        return self.task.cancelled() or self.task.exception() is not None

    @property
    def errors(self) -> list[ServiceError]:
        return [answer for answer in self.answers if isinstance(answer, ServiceError)]

    def check(self) -> None:
        """Asserts that every sequence has its own result or an error."""
        assert self.task.done()
        if not self.refused:
            assert len(self.answers) == len(self.sequences)
            for answer, sequence in zip(self.answers, self.sequences, strict=True):
                assert isinstance(answer, ServiceError) or answer.tokens == sequence.source


async def passes(number: int = 4) -> None:
    """Lets the event loop make `number` passes."""
    for _ in range(number):
        await asyncio.sleep(0)


def on_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test within a time limit, and fails on exceptions that only the event loop would see."""

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
    """Does not wait: the time it would have waited passes at once."""

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
    """Returns what `work` returns, without threads, on an event loop where time passes only while all tasks wait."""
    with asyncio.Runner(loop_factory=_VirtualTime) as runner:
        return runner.run(work)


def counted(metrics: Metrics) -> tuple[int, int, int]:
    """The numbers of hits, joined requests and misses."""
    values = (
        metrics.registry.get_sample_value("interlinear_cache_sentences_total", {"result": result})
        for result in ("hit", "joined", "miss")
    )
    hit, joined, miss = (int(value or 0) for value in values)
    return hit, joined, miss
