"""What an alignment head learns of a frozen model, and how it is measured."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from model.config import ModelConfig
from model.transformer import Transformer
from training.align import head as head_module
from training.align.head import accuracy, head_of, head_weights, train_head, with_alignment_head
from training.align.statistical import NO_WORD, UNKNOWN, Integers, TokenPair

SIZE = 30


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(1)
    shape: dict[str, Any] = {"d_model": 32, "num_heads": 2, "d_ff": 48, "encoder_layers": 1, "decoder_layers": 2}
    return Transformer(ModelConfig(SIZE, SIZE, **shape)).eval()


def known(count: int, seed: int) -> tuple[list[TokenPair], list[Integers]]:
    """Targets in any order of tokens n that translate n + 10 of the source, with 9, which translates none."""
    random = Random(seed)
    pairs, links = list[TokenPair](), list[Integers]()
    for _ in range(count):
        source = random.sample(range(20, 30), random.randint(1, 5))
        order = random.sample(range(len(source)), len(source))
        target = [source[place] - 10 for place in order]
        at = random.randint(0, len(target))
        pairs.append((source, [*target[:at], 9, *target[at:]]))
        links.append(np.array([*order[:at], NO_WORD, *order[at:]]))
    return pairs, links


def test_the_head_learns_what_random_attention_does_not_know(model: Transformer) -> None:
    aligned = with_alignment_head(model, train_head(model, *known(2000, seed=2)))
    by_head, by_attention = accuracy(aligned, *known(200, seed=3))
    assert by_head > 0.97
    assert by_attention < 0.7


def test_what_translates_no_word_is_aligned_to_the_end_symbol(model: Transformer) -> None:
    aligned = with_alignment_head(model, train_head(model, *known(2000, seed=2)))
    pairs, _ = known(200, seed=3)
    at = [(list(target).index(9), len(source)) for source, target in pairs]
    right, _ = accuracy(aligned, pairs, [_only(place, end, 6) for place, end in at])
    assert right > 0.9


def _only(place: int, link: int, length: int) -> Integers:
    found = np.full(length, UNKNOWN)
    found[place] = link
    return found


def test_the_same_pairs_give_the_same_head_and_leave_the_model_as_it_was(model: Transformer) -> None:
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    state = torch.random.get_rng_state()
    one, other = (train_head(model, *known(300, seed=2)) for _ in range(2))
    assert torch.equal(one.query.weight, other.query.weight)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_no_more_pairs_are_kept_in_memory_than_there_is_room_for(
    model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, links = known(300, seed=2)
    asked: list[int] = []
    record = head_module._record

    def counted(model: Transformer, some: list[TokenPair]) -> object:
        asked.append(len(some))
        return record(model, some)

    monkeypatch.setattr(head_module, "_record", counted)
    monkeypatch.setattr(head_module, "MAX_TOKENS", 100)
    train_head(model, pairs, links)
    assert 100 / 6 <= sum(asked) < 60


def test_a_head_is_put_on_and_taken_off(model: Transformer) -> None:
    head = train_head(model, *known(300, seed=2))
    aligned = with_alignment_head(model, head)
    assert aligned.config.alignment_size == head.query.out_features == 32
    assert aligned.output.weight.data_ptr() == model.output.weight.data_ptr()
    bare = with_alignment_head(aligned, None)
    assert bare.alignment is None
    assert bare.config == model.config
    assert dict(bare.named_parameters()).keys() == dict(model.named_parameters()).keys()


def test_a_head_among_saved_weights_is_found_again(model: Transformer) -> None:
    head = train_head(model, *known(300, seed=2))
    saved = {**dict(model.named_parameters()), **head_weights(head)}
    found = head_of(saved)
    assert found is not None
    assert all(torch.equal(one, other) for one, other in zip(found.parameters(), head.parameters(), strict=True))
    assert head_of(dict(model.named_parameters())) is None


def test_a_model_whose_sources_have_no_end_symbol_learns_links_alone() -> None:
    torch.manual_seed(1)
    shape: dict[str, Any] = {"d_model": 32, "num_heads": 2, "d_ff": 48, "encoder_layers": 1, "decoder_layers": 1}
    model = Transformer(ModelConfig(SIZE, SIZE, source_eos=False, **shape)).eval()
    aligned = with_alignment_head(model, train_head(model, *known(2000, seed=2)))
    assert accuracy(aligned, *known(200, seed=3))[0] > 0.95
