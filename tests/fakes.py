"""Engines for tests: one whose translations are given, and one that decodes with a model of random weights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from app.catalogue import Catalogue
from app.engine import Decoder
from app.passage import Piece
from app.scheduler import Job
from app.settings import Settings
from app.translation import Options, Translated
from app.translator import Translator
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
    """

    def __init__(self, bundle: Bundle, target: Callable[[str], str] | None = None) -> None:
        self.bundle, self.target = bundle, target

    async def decode(self, job: Job[Hypothesis]) -> None:
        tokenizer = self.bundle.tokenizer
        for hypothesis in job.sentences:
            text = tokenizer.decode(hypothesis.source)
            made = tokenizer.encode(self.target(text)) if self.target else hypothesis.source
            last = max(0, len(hypothesis.source) - 1)
            hypothesis.tokens = [*(hypothesis.prefix or made), tokenizer.eos_id]
            hypothesis.log_probs = [-1.0] * len(hypothesis.tokens)
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
    settings = Settings(queue_tokens=10**7, max_text_chars=10**6, max_items=10**4, deadline_ms=60_000)
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
