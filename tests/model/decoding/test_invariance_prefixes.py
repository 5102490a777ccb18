"""model/decoding/ and app/translation/completion.py: continuing a prefix gives the same tokens and log
probabilities, bit for bit, with every instruction set and in any batch."""

from __future__ import annotations

import platform
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from app.translation.completion import token_prefix
from model.backends import prepare
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding.batch import Backend
from model.hypothesis import Hypothesis
from model.int8.backend import Int8Backend
from model.int8.isa import INSTRUCTION_SETS, processor_features

pytestmark = [pytest.mark.bundle, pytest.mark.slow]

SHIPPED = Path(__file__).parents[3] / "bundles"
RUNNABLE = [isa.name for isa in INSTRUCTION_SETS if isa.runs_on(platform.machine(), processor_features())]
WORDS = "the dog house friend red small never is was have you we they in with morning train eat see 3 12 Anna"
FOREIGN = ["", "l", "Je ne s", "Où ê", "été ", "(", "12,", "Ωμ", "你好", "😀 e", "xqzj", "Salut, "]
COUNT, ROWS = 200, 33
Bits = tuple[tuple[int, ...], tuple[str, ...]]


class Wish(NamedTuple):
    """A source and the prefix of its translation."""

    source: Sequence[int]
    prefix: str
    beam_size: int


def hypothesis(bundle: LoadedBundle, wish: Wish) -> Hypothesis:
    found = token_prefix(bundle.target_tokenizer, wish.prefix) if wish.prefix else None
    tokens, spelling = ((), ()) if found is None else found
    limit = bundle.limits.target(len(wish.source), len(tokens) + len(spelling))
    return Hypothesis(wish.source, limit, prefix=tokens, spelling=spelling, beam_size=wish.beam_size)


def decoded(backend: Backend, bundle: LoadedBundle, wishes: Sequence[Wish], rows: int) -> list[Bits]:
    """Decodes them in batches of up to `rows` rows, into which each comes when there is room."""
    all_of_them = [hypothesis(bundle, wish) for wish in wishes]
    waiting, batch = list(all_of_them), backend.new_batch(rows, bundle.limits)
    while waiting or batch.running:
        while waiting and waiting[-1].beam_size <= batch.free:
            batch.admit([waiting.pop()])
        batch.step()
    return [(tuple(one.tokens), tuple(map(float.hex, one.log_probs))) for one in all_of_them]


@pytest.fixture(scope="module")
def bundle() -> Iterator[LoadedBundle]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as a worker has it
    yield load_bundle(SHIPPED / "en-de", torch.device("cpu"))  # a third of the weights of en-fr
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def wishes(bundle: LoadedBundle) -> list[Wish]:
    """Random sentences, each with the beginning of a translation: of its own, of another's, or of none."""
    draw, tokenizer = random.Random(5), bundle.source_tokenizer
    sources = [tokenizer.encode(" ".join(draw.choices(WORDS.split(), k=draw.randint(1, 12)))) for _ in range(60)]
    backend = prepare(bundle.model, "auto")
    free = [Wish(source, "", 1) for source in sources]
    translations = [bundle.target_tokenizer.decode(tokens) for tokens, _ in decoded(backend, bundle, free, ROWS)]
    found = list(free)
    while len(found) < COUNT:
        number = draw.randrange(len(sources))
        whole = translations[draw.choice([number, number, draw.randrange(len(sources))])]
        prefix = draw.choice(FOREIGN) if draw.random() < 0.2 else whole[: draw.randint(0, len(whole))]
        found.append(Wish(sources[number], prefix, draw.choice([1, 1, 1, 4])))
    return found


@pytest.fixture(scope="module")
def alone(bundle: LoadedBundle, wishes: list[Wish]) -> list[Bits]:
    """With the fastest instruction set, one at a time."""
    backend = Int8Backend.of(bundle.model, RUNNABLE[0])
    return [decoded(backend, bundle, [wish], wish.beam_size)[0] for wish in wishes]


def test_prefixes_restrict_what_is_decoded(bundle: LoadedBundle, wishes: list[Wish], alone: list[Bits]) -> None:
    begun = [
        bundle.target_tokenizer.decode(tokens).startswith(wish.prefix)
        for wish, (tokens, _) in zip(wishes, alone, strict=True)
        if wish.prefix and token_prefix(bundle.target_tokenizer, wish.prefix)
    ]
    assert all(begun)
    assert len(begun) > COUNT / 2
    assert len(set(alone)) > COUNT / 2


@pytest.mark.parametrize("isa", RUNNABLE)
def test_no_bit_depends_on_the_instruction_set_or_the_batch(
    isa: str, bundle: LoadedBundle, wishes: list[Wish], alone: list[Bits]
) -> None:
    backend = Int8Backend.of(bundle.model, isa)
    step = 16 if isa == "generic" else 2  # plain C takes ten times as long
    for first, rows in enumerate((7, ROWS)):
        some = range(first, len(wishes), step)
        order = random.Random(rows).sample(some, len(some))
        assert decoded(backend, bundle, [wishes[n] for n in order], rows) == [alone[n] for n in order]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_in_pytorch_no_bit_depends_on_the_batch(precision: str, bundle: LoadedBundle, wishes: list[Wish]) -> None:
    backend, some = prepare(bundle.model, precision), wishes[::9]
    one_by_one = [decoded(backend, bundle, [wish], wish.beam_size)[0] for wish in some]
    order = random.Random(2).sample(range(len(some)), len(some))
    assert decoded(backend, bundle, [some[n] for n in order], ROWS) == [one_by_one[n] for n in order]
