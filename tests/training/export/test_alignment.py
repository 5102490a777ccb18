"""Which alignment head the bundle of a run gets: one that it learns, or that of the bundle that it fine-tunes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from model.config import ModelConfig
from model.transformer import AlignmentHead, Transformer
from training.align.head import with_alignment_head
from training.align.learn import Aligned
from training.export import alignment
from training.export.alignment import MIN_PAIRS_AGAIN, align_run
from training.export.run_folder import TrainedRun

Learnt = list[int]
"""How many pairs each call of `align` was to learn from."""


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(1)
    shape: dict[str, Any] = {"d_model": 16, "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    return Transformer(ModelConfig(10, 10, **shape)).eval()


@pytest.fixture
def learnt(monkeypatch: pytest.MonkeyPatch) -> Learnt:
    calls: Learnt = []

    def align(model: Transformer, tokenizers: object, target: str, pairs: list[Any], *_: object) -> Aligned:
        calls.append(len(pairs))
        return Aligned(with_alignment_head(model, AlignmentHead(16, 16)), {"learnt_from_pairs": len(pairs)})

    monkeypatch.setattr(alignment, "align", align)
    return calls


def run_of(pairs: int, prefixes: tuple[tuple[int, ...], ...] = ((), ())) -> TrainedRun:
    """A run that was trained on so many pairs."""
    sides = SimpleNamespace(sequences=lambda rows: [[3, 4]] * len(rows))

    class Pairs(SimpleNamespace):
        def __len__(self) -> int:
            return pairs

    return cast(
        TrainedRun,
        SimpleNamespace(
            direction=SimpleNamespace(prefixes=prefixes),
            pairs=Pairs(weights=np.ones(pairs), source=sides, target=sides),
            tokenizers=None,
            summary=SimpleNamespace(target="fr"),
            development=lambda: [],
        ),
    )


def test_a_bundle_fine_tuned_on_few_pairs_keeps_its_head(model: Transformer, learnt: Learnt) -> None:
    initial = AlignmentHead(16, 16)
    aligned = align_run(run_of(MIN_PAIRS_AGAIN - 1), model, initial, print)
    assert aligned.record == {"of_initial_bundle": True} and not learnt
    head = aligned.model.alignment
    assert head is not None
    assert torch.equal(head.query.weight, initial.query.weight) and torch.equal(head.key.weight, initial.key.weight)


@pytest.mark.parametrize(("pairs", "has_one"), [(MIN_PAIRS_AGAIN, True), (2_000, False)])
def test_one_with_many_pairs_or_no_head_yet_learns_one(
    model: Transformer, learnt: Learnt, pairs: int, has_one: bool
) -> None:
    initial = AlignmentHead(16, 16) if has_one else None
    assert align_run(run_of(pairs), model, initial, print).record == {"learnt_from_pairs": pairs}
    assert learnt == [pairs]


@pytest.mark.parametrize("has_one", [True, False])
def test_where_nothing_can_be_learnt_it_stays_as_it_was(
    model: Transformer, monkeypatch: pytest.MonkeyPatch, has_one: bool
) -> None:
    monkeypatch.setattr(alignment, "align", lambda *_: None)
    initial = AlignmentHead(16, 16) if has_one else None
    aligned = align_run(run_of(MIN_PAIRS_AGAIN), model, initial, print)
    assert (aligned.model.alignment is not None) == has_one
    assert aligned.record == ({"of_initial_bundle": True} if has_one else {})


def test_a_bundle_of_several_directions_learns_none(model: Transformer, learnt: Learnt) -> None:
    aligned = align_run(run_of(MIN_PAIRS_AGAIN, ((5,), ())), model, None, print)
    assert aligned.model.alignment is None and not learnt
