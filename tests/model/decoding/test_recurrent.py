"""model/decoding/: A recurrent decoder against plain loops: its cells follow sentences that join, leave and fork."""

from __future__ import annotations

import math
import random

import pytest
import torch

from model.decoding import beam_decode
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis
from tests.model.decoding.test_decoding import (
    BOS,
    EOS,
    LIMITS,
    FixedShapeBackend,
    lively_model,
    parallel_pass,
    plain_beam,
    plain_loop,
    random_sources,
    run_to_the_end,
)

MODEL = lively_model(decoder="ssru", alignment_layer=1, alignment_head=2)
SOURCES = random_sources(24, longest=12, seed=7)


def new_hypotheses(**fields: object) -> list[Hypothesis]:
    return [Hypothesis(source, LIMITS.target(len(source)), **fields) for source in SOURCES]  # type: ignore[arg-type]


def answer(hypothesis: Hypothesis) -> tuple[list[int], list[float]]:
    return hypothesis.tokens, hypothesis.log_probs


@pytest.mark.slow
def test_sentences_that_join_and_leave_get_the_tokens_of_a_plain_loop_and_the_same_bits() -> None:
    backend, draw = TorchBackend(MODEL), random.Random(1)
    alone = new_hypotheses()
    for hypothesis in alone:
        batch = backend.new_batch(1, LIMITS)
        batch.admit([hypothesis])
        run_to_the_end(batch)
        assert hypothesis.tokens == plain_loop(MODEL, hypothesis.source, hypothesis.limit)
    assert {h.finish_reason for h in alone} == {"stop", "length"}

    together, batch = new_hypotheses(), backend.new_batch(5, LIMITS)
    waiting = list(together)
    while waiting or batch.running:
        if batch.running and draw.random() < 0.1:
            batch.remove([gone := draw.choice(batch.running)])
            number = next(number for number, h in enumerate(together) if h is gone)
            together[number] = gone.without_result()
            waiting.append(together[number])
        count = min(draw.randint(0, batch.free), len(waiting))
        if count:
            batch.admit([waiting.pop() for _ in range(count)])
        if batch.running:
            batch.step()
    assert list(map(answer, together)) == list(map(answer, alone))


def test_beams_equal_a_plain_implementation() -> None:
    sources = SOURCES[:6]
    for source, found in zip(sources, beam_decode(MODEL, sources, LIMITS, 3, rows=7), strict=True):
        expected = plain_beam(MODEL, source, LIMITS.target(len(source)), 3)
        assert [h.tokens for h in found.finished] == [tokens for _, tokens in expected]
        assert [h.score for h in found.finished] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("fixed", [False, True])
def test_alignment_and_coverage_are_those_of_the_head_and_no_self_attention_is_recorded(fixed: bool) -> None:
    backend = (FixedShapeBackend if fixed else TorchBackend)(MODEL, tiled=not fixed)
    forced, free = Hypothesis([5, 6, 7], 20, forced=[7, 8], record=True), Hypothesis([9, 3, 4, 4], 20, record=True)
    batch = backend.new_batch(3, LIMITS)
    batch.admit([forced, free])
    run_to_the_end(batch)
    assert forced.tokens == [7, 8, EOS]
    for hypothesis in (forced, free):
        log_probs, record = parallel_pass(MODEL, hypothesis.source, hypothesis.tokens)
        assert hypothesis.log_probs == pytest.approx(log_probs.tolist(), abs=1e-4)
        assert hypothesis.decoder_attention.shape == (0, 4, len(hypothesis.tokens), len(hypothesis.tokens))
        weights = record.cross[1][0, 2]  # [target, source]
        assert list(hypothesis.aligned) == weights[:, : len(hypothesis.source)].argmax(-1).tolist()
        assert list(hypothesis.coverage) == pytest.approx(weights[:-1].sum(0).tolist(), abs=1e-4)


def test_fixed_shapes_and_prefixes_give_the_tokens_of_dynamic_ones() -> None:
    found = []
    for backend in (TorchBackend(MODEL), FixedShapeBackend(MODEL, tiled=False)):
        hypotheses = [*new_hypotheses()[:4], *new_hypotheses(prefix=(11, 12))[:4]]
        batch = backend.new_batch(8, LIMITS)
        batch.admit(hypotheses)
        run_to_the_end(batch)
        found.append([h.tokens for h in hypotheses])
    assert found[0] == found[1]
    assert all(tokens[:2] == [11, 12] for tokens in found[0][4:])


def test_a_row_that_broke_down_does_not_spoil_its_next_sentence() -> None:
    model = lively_model(decoder="ssru")
    with torch.no_grad():
        model.source_embedding.tokens.weight[BOS] = math.nan
    batch = TorchBackend(model).new_batch(1, LIMITS)
    broken, sound = Hypothesis([BOS], 9), Hypothesis([5, 6, 7], 9)
    for hypothesis in (broken, sound):
        batch.admit([hypothesis])
        run_to_the_end(batch)
    assert math.isnan(broken.log_probs[-1])
    assert sound.tokens == plain_loop(model, sound.source, 9)
