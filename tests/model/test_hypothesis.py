"""Constraints on a target hold whatever the model prefers, greedily and in beams, with every backend."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from torch import nn

from model.config import ModelConfig
from model.decoding import greedy_decode
from model.decoding.batch import Backend
from model.decoding.constraints import best_allowed, best_by_row
from model.decoding.torch_backend import TorchBackend, encode_batch
from model.hypothesis import Hypothesis, Limits, TokenConstraint
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable
from model.transformer import Transformer

EOS, VOCABULARY = 2, 96
SYMBOLS = list(range(60, 92))
LIMITS = Limits(max_source=40, max_target=40)


def lively_model() -> Transformer:
    """Random weights, scaled so that outputs vary with source and step, and a fair share of them ends."""
    shape = {"d_model": 64, "num_heads": 4, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 2}
    config = ModelConfig.from_dict(
        {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "share_embeddings": "none", **shape}
    )
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = Transformer(config).eval()
        for layers in (model.encoder, model.decoder):
            for module in layers.modules():
                if isinstance(module, nn.Linear):
                    module.weight.mul_(2)
        model.source_embedding.tokens.weight.mul_(1.5)
        model.target_embedding.tokens.weight.mul_(1.5)
        model.output.weight[EOS].mul_(1.5)
    return model


MODEL = lively_model()


@pytest.fixture(scope="module", params=["float32", "int8 kernels"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "float32":
        yield TorchBackend(MODEL)
        return
    try:
        yield Int8Backend.of(MODEL)
    except KernelsUnavailable as reason:
        pytest.skip(f"int8 kernels: {reason}")


def decoded(backend: Backend, hypotheses: list[Hypothesis], rows: int = 16) -> list[Hypothesis]:
    batch = backend.new_batch(rows, LIMITS)
    waiting = list(hypotheses)
    while waiting or batch.running:
        while waiting and waiting[0].beam_size <= batch.free:
            batch.admit([waiting.pop(0)])
        batch.step()
    return hypotheses


def demanding(seed: int, beam_size: int = 1) -> Hypothesis:
    draw = random.Random(seed)
    required = draw.sample(SYMBOLS, draw.randint(0, 12))
    source = [draw.randrange(3, 60) for _ in range(draw.randint(1, 15))]
    limit = max(len(required), draw.randint(1, 30))
    return Hypothesis(
        source, limit, required=required, forbidden=[s for s in SYMBOLS if s not in required], beam_size=beam_size
    )


def holds(hypothesis: Hypothesis) -> bool:
    return all(hypothesis.tokens.count(symbol) == (symbol in hypothesis.required) for symbol in SYMBOLS)


@pytest.mark.slow
def test_every_required_token_occurs_once_and_no_forbidden_one(backend: Backend) -> None:
    done = decoded(backend, [demanding(seed) for seed in range(300)])
    assert all(map(holds, done))
    assert all(len(h.tokens) <= h.limit and len(h.aligned) == len(h.tokens) for h in done)
    assert {h.finish_reason for h in done} == {"stop", "length"}


@pytest.mark.slow
def test_without_constraints_required_tokens_do_not_occur(backend: Backend) -> None:
    """So the test above would fail without the constraints."""
    free = [Hypothesis(h.source, h.limit) for h in map(demanding, range(300))]
    for hypothesis, wished in zip(decoded(backend, free), map(demanding, range(300)), strict=True):
        hypothesis.required = wished.required
    assert sum(map(holds, free)) < 150


@pytest.mark.slow
def test_constraint_that_the_model_meets_anyway_changes_nothing(backend: Backend) -> None:
    met = 0
    for seed in range(40):
        [free] = greedy_decode(backend, [demanding(seed).source], LIMITS)
        own = [token for token in SYMBOLS if free.tokens.count(token) == 1]
        others = [token for token in SYMBOLS if token not in free.tokens]
        if len(own) + len(others) < len(SYMBOLS) or free.finish_reason == "length":
            continue
        [bound] = decoded(backend, [Hypothesis(free.source, free.limit, required=own, forbidden=others)])
        assert (bound.tokens, bound.log_probs) == (free.tokens, free.log_probs)
        met += 1
    assert met


@pytest.mark.slow
def test_constraints_do_not_depend_on_the_batch(backend: Backend) -> None:
    together = decoded(backend, [demanding(seed, beam_size=1 + seed % 3) for seed in range(24)])
    for seed, hypothesis in enumerate(together):
        [own] = decoded(backend, [demanding(seed, beam_size=1 + seed % 3)])
        assert (own.tokens, own.log_probs) == (hypothesis.tokens, hypothesis.log_probs)
        assert list(own.aligned) == list(hypothesis.aligned)
        assert list(own.coverage) == list(hypothesis.coverage)


@pytest.mark.slow
def test_every_hypothesis_of_a_beam_meets_the_constraints(backend: Backend) -> None:
    done = decoded(backend, [demanding(seed, beam_size=4) for seed in range(60)])
    for hypothesis in done:
        assert hypothesis.finished
        assert all(map(holds, hypothesis.finished))
        assert all(len(found.tokens) <= found.limit for found in hypothesis.finished)
        scores = [found.score for found in hypothesis.finished]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(found.tokens) for found in hypothesis.finished}) == len(hypothesis.finished)
        assert hypothesis.tokens == hypothesis.finished[0].tokens


@pytest.mark.slow
def test_beams_log_probabilities_equal_those_of_forcing_its_tokens(backend: Backend) -> None:
    """Each branch's cache is its own history, whichever branch it forked from, and however full the block was."""
    for seed in range(12):
        draw = random.Random(seed)
        wide = Hypothesis([draw.randrange(3, 60) for _ in range(12)], 40, beam_size=5)
        decoded(backend, [wide])
        assert max(len(found.tokens) for found in wide.finished) > 16 or seed
        for found in wide.finished:
            target = [token for token in found.tokens if token != EOS]
            [forced] = decoded(backend, [Hypothesis(wide.source, len(target), forced=target)])
            count = len(found.tokens)
            assert forced.log_probs[:count] == pytest.approx(found.log_probs, abs=1e-4)
            assert list(forced.aligned)[:count] == list(found.aligned)


@pytest.mark.slow
def test_beam_is_mostly_no_worse_than_greedy(backend: Backend) -> None:
    sources = [demanding(seed).source for seed in range(40)]
    wide = decoded(backend, [Hypothesis(source, 30, beam_size=6) for source in sources])
    greedy = decoded(backend, [Hypothesis(source, 30) for source in sources])
    assert sum(w.score >= g.score - 1e-6 for w, g in zip(wide, greedy, strict=True)) >= 36
    assert any(w.tokens != g.tokens for w, g in zip(wide, greedy, strict=True))


@pytest.mark.slow
def test_removed_beam_leaves_nothing_behind(backend: Backend) -> None:
    batch = backend.new_batch(9, LIMITS)
    for seed in range(20):
        wide, alone = Hypothesis([5, 6, 7], 30, beam_size=5), demanding(seed)
        batch.admit([wide, alone])
        assert batch.free == 3
        for _ in range(seed):
            batch.step()
        left = [h for h in batch.running if h in (wide, alone)]
        assert batch.remove(left) == left
        assert (batch.free, list(batch.running)) == (9, [])
    expected = demanding(1)
    decoded(backend, [expected])
    again = demanding(1)
    batch.admit([again])
    while batch.running:
        batch.step()
    assert (again.tokens, again.log_probs) == (expected.tokens, expected.log_probs)


def test_coverage_equals_that_of_the_recorded_weights(backend: Backend) -> None:
    [hypothesis] = decoded(backend, [Hypothesis([5, 9, 30, 12, 44], 20, record=True)])
    mean = hypothesis.cross_attention.mean((0, 1))  # [target, source]
    assert list(hypothesis.coverage) == pytest.approx(mean[:-1].sum(0).tolist(), abs=1e-5)
    assert list(hypothesis.aligned) == mean[:, :-1].argmax(-1).tolist()


def test_token_without_a_source_word_aligns_to_the_end_symbol(backend: Backend) -> None:
    [hypothesis] = decoded(backend, [Hypothesis([], 5)])
    assert set(hypothesis.aligned) == {0}
    assert len(hypothesis.coverage) == 1
    assert len(encode_batch(MODEL, [[]]).lengths) == 1


@draw_examples(200)
@given(st.data())
def test_best_allowed_token_is_chosen(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(-500, -1), min_size=8, max_size=20, unique=True))
    tokens = st.lists(st.integers(3, len(values) - 1), unique=True, max_size=4)
    unmet, forbidden, count = data.draw(tokens), data.draw(tokens), data.draw(st.integers(1, 5))
    forbidden = [token for token in forbidden if token not in unmet]
    found = best_allowed(torch.tensor(values, dtype=torch.float32), TokenConstraint((), unmet, forbidden, count), EOS)
    allowed = [token for token in range(len(values)) if token not in forbidden]
    best = max(allowed, key=lambda token: values[token])
    if unmet:
        allowed = unmet if best == EOS else [token for token in allowed if token != EOS]
    expected = sorted(allowed, key=lambda token: -values[token])[:count]
    assert found == [(token, float(values[token])) for token in expected]
    assert all(not math.isinf(value) for _, value in found)


@given(
    rows=st.lists(st.permutations([-math.inf, -5.0, -4.0, -3.0, -2.0, -1.0]), min_size=1, max_size=5),
    counts=st.lists(st.integers(1, 8), min_size=5, max_size=5),
    forbidden=st.lists(st.sampled_from([3, 4, 5]), max_size=1),
)
def test_rows_in_a_batch_get_the_choices_of_single_ones(
    rows: list[list[float]], counts: list[int], forbidden: list[int]
) -> None:
    constraints = {row: TokenConstraint(count=count) for row, count in enumerate(counts[: len(rows)])}
    constraints[0] = TokenConstraint(forbidden=forbidden, count=counts[0])
    log_probs = torch.tensor(rows, dtype=torch.float32)
    expected = {row: best_allowed(log_probs[row], constraint, EOS) for row, constraint in constraints.items()}
    assert best_by_row(log_probs, constraints, EOS) == expected
