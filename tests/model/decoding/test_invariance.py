"""model/decoding/: batch invariance: a sentence's tokens and log probabilities are the same, bit for bit, alone and in
any batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding.batch import Backend
from model.decoding.batch_invariance import find_tiles
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable
from model.int8.reference import with_quantised_products
from model.transformer import Linear

pytestmark = [pytest.mark.bundle, pytest.mark.slow]

SHIPPED = Path(__file__).parents[3] / "bundles" / "en-de"
WORDS = "the dog house friend red small never is was have you we they in with morning train eat see 3 12 Anna"
PRECISIONS = ("float32", "bfloat16", "int8", "int8 in PyTorch")
SENTENCES = 20  # more than the rows of a tile
Answer = tuple[list[int], list[float]]


@pytest.fixture(scope="module")
def shipped() -> Iterator[LoadedBundle]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker has it
    yield load_bundle(SHIPPED, torch.device("cpu"))
    torch.set_num_threads(threads)


@pytest.fixture(scope="module", params=PRECISIONS)
def backend(request: pytest.FixtureRequest, shipped: LoadedBundle) -> Backend:
    precision: str = request.param
    if precision == "int8 in PyTorch":
        return TorchBackend(with_quantised_products(shipped.model), "int8")
    if precision == "int8":
        try:
            return Int8Backend.of(shipped.model)
        except KernelsUnavailable as reason:
            pytest.skip(f"the int8 kernels: {reason}")
    return prepare(shipped.model, precision)


def random_sources(bundle: LoadedBundle, count: int) -> list[list[int]]:
    draw = random.Random(11)
    return [
        bundle.source_tokenizer.encode(" ".join(draw.choices(WORDS.split(), k=draw.randint(1, 14))))
        for _ in range(count)
    ]


def decoded(backend: Backend, bundle: LoadedBundle, sources: list[list[int]]) -> list[Answer]:
    """All sentences decoded together, from the first step on."""
    hypotheses = [Hypothesis(source, bundle.limits.target(len(source))) for source in sources]
    batch = backend.new_batch(len(sources), bundle.limits)
    batch.admit(hypotheses)
    while batch.running:
        batch.step()
    return [(h.tokens, h.log_probs) for h in hypotheses]


def coming_and_going(backend: Backend, bundle: LoadedBundle, sources: list[list[int]], rows: int) -> list[Answer]:
    """Sentences join a few at a time, and some are removed and start again."""
    draw = random.Random(rows)
    hypotheses = [Hypothesis(source, bundle.limits.target(len(source))) for source in sources]
    waiting, numbers = list(hypotheses), {id(h): number for number, h in enumerate(hypotheses)}
    batch = backend.new_batch(rows, bundle.limits)
    while waiting or batch.running:
        joining = [waiting.pop() for _ in range(min(len(waiting), draw.randint(0, batch.free)))]
        if joining:
            batch.admit(joining)
        if batch.running and draw.random() < 0.05:
            (gone,) = batch.remove([draw.choice(batch.running)])
            again = Hypothesis(gone.source, gone.limit)
            number = numbers[id(again)] = numbers.pop(id(gone))
            hypotheses[number] = again
            waiting.append(again)
        if batch.running:
            batch.step()
    return [(h.tokens, h.log_probs) for h in hypotheses]


def test_no_bit_depends_on_the_batch(backend: Backend, shipped: LoadedBundle) -> None:
    sources = random_sources(shipped, SENTENCES)
    alone = [decoded(backend, shipped, [source])[0] for source in sources]
    assert len({len(tokens) for tokens, _ in alone}) > 5
    for size in (7, SENTENCES - 1):
        order = random.Random(size).sample(range(len(sources)), len(sources))
        for first in range(0, len(order), size):
            numbers = order[first : first + size]
            assert decoded(backend, shipped, [sources[n] for n in numbers]) == [alone[n] for n in numbers]
    assert coming_and_going(backend, shipped, sources, 9) == alone


def test_products_that_differ_in_few_numbers_get_a_single_height(monkeypatch: pytest.MonkeyPatch) -> None:
    """With AMX, bfloat16 products of more than 16 rows differ from those of 16 in one of 20,000 numbers."""

    def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        product = torch.addmm(bias, x, weight.T)
        if len(x) > 16:
            product[torch.rand(product.shape, generator=generator) < 1 / 20_000] += 1
        return product

    generator = torch.Generator().manual_seed(1)
    monkeypatch.setattr("model.decoding.batch_invariance.F.linear", linear)
    monkeypatch.setattr("model.decoding.batch_invariance.KEY_TILES", (16,))  # attention is not compared
    tiles = find_tiles(Linear(64, 8).bfloat16(), 32)
    assert tiles.rows == tiles.max_rows
