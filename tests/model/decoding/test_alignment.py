"""model/decoding/, model/int8/: the alignment head, in each backend."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from model.decoding.batch import Backend, rows_taken
from model.decoding.cuda_graphs import CudaGraphBackend
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis
from model.int8.backend import Int8Backend
from model.int8.isa import KernelsUnavailable
from model.int8.reference import with_quantised_products
from model.transformer import AttentionRecord, Transformer
from tests.model.int8.test_kernels import BOS, LIMITS, RECURRENT, RUNNABLE, make_model, random_sources

pytestmark = pytest.mark.slow
SIZE = 32
FIELDS: list[dict[str, Any]] = [{}, {"norm": "post"}, {"source_eos": False}, RECURRENT]
SOURCES = random_sources(24, seed=5)


def decoded(backend: Backend, sources: Sequence[Sequence[int]] = SOURCES, **fields: Any) -> list[Hypothesis]:
    hypotheses = [Hypothesis(source, LIMITS.target(len(source)), **fields) for source in sources]
    batch = backend.new_batch(rows_taken(hypotheses), LIMITS)
    batch.admit(hypotheses)
    while batch.running:
        batch.step()
    return hypotheses


def answer(hypothesis: Hypothesis) -> tuple[list[int], list[float], list[float]]:
    return list(hypothesis.tokens), list(hypothesis.log_probs), list(hypothesis.coverage)


@torch.no_grad()
def expected(model: Transformer, hypothesis: Hypothesis) -> list[int]:
    """The alignment of every token but the last, by the modules, in one pass."""
    assert model.alignment is not None
    record = AttentionRecord()
    src = torch.tensor([model.config.source_ids(hypothesis.source)])
    encoded = model.encode(src)
    read = torch.tensor([[BOS, *hypothesis.tokens[:-1]]])
    model.decode(read, model.memory(encoded), model.source_mask(src), record)
    scores = model.alignment(record.cross_inputs[0], model.alignment.key(encoded))[0]  # [target, source]
    first = hypothesis.source_prefix_length
    best = scores[1:, first:].argmax(-1) + first
    return [int(position) for position in best]


def without_head(model: Transformer) -> Transformer:
    weights = {name: weight for name, weight in model.named_parameters() if not name.startswith("alignment.")}
    return Transformer.with_weights(dataclasses.replace(model.config, alignment_size=0), weights).eval()


@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("wishes", [{}, {"beam_size": 3}], ids=str)
def test_the_head_aligns_each_token_at_the_step_that_reads_it(fields: dict[str, Any], wishes: dict[str, Any]) -> None:
    model = make_model(alignment_size=SIZE, **fields)
    for hypothesis in decoded(TorchBackend(model), **wishes):
        assert list(hypothesis.aligned)[: len(hypothesis.tokens) - 1] == expected(model, hypothesis)


@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("wishes", [{}, {"beam_size": 3}], ids=str)
def test_the_kernels_align_as_the_modules_with_quantised_products(
    fields: dict[str, Any], wishes: dict[str, Any]
) -> None:
    model = make_model(alignment_size=SIZE, **fields)
    reference = with_quantised_products(model)
    right, count = 0, 0
    for hypothesis in decoded(Int8Backend.of(model, RUNNABLE[0]), **wishes):
        found = list(hypothesis.aligned)[: len(hypothesis.tokens) - 1]
        right += sum(a == b for a, b in zip(found, expected(reference, hypothesis), strict=True))
        count += len(found)
    assert count > 300
    assert right >= 0.98 * count  # sums of floats in another order turn a few close decisions


@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_the_head_changes_no_token_no_score_and_no_coverage(fields: dict[str, Any]) -> None:
    model = make_model(alignment_size=SIZE, **fields)
    for new in (TorchBackend, lambda model: Int8Backend.of(model, RUNNABLE[0])):
        backends: list[Backend] = [new(model), new(without_head(model))]
        ours, theirs = (decoded(backend) for backend in backends)
        assert list(map(answer, ours)) == list(map(answer, theirs))
        assert [list(h.aligned) for h in ours] != [list(h.aligned) for h in theirs]
        assert [h.aligned[-1] for h in ours] == [h.aligned[-1] for h in theirs]  # no step reads the last token


@pytest.mark.parametrize("isa", RUNNABLE)
def test_every_instruction_set_aligns_the_same_in_any_company(isa: str) -> None:
    model = make_model(alignment_size=SIZE)
    alone = [list(decoded(Int8Backend.of(model, RUNNABLE[-1]), [source])[0].aligned) for source in SOURCES]
    assert [list(h.aligned) for h in decoded(Int8Backend.of(model, isa))] == alone


def test_a_step_of_all_rows_aligns_as_one_of_the_live_rows() -> None:
    model = make_model(alignment_size=SIZE)
    graph, live = (decoded(backend(model, tiled=False)) for backend in (CudaGraphBackend, TorchBackend))
    assert [list(h.aligned) for h in graph] == [list(h.aligned) for h in live]


def test_no_token_is_aligned_to_the_source_prefix() -> None:
    model = make_model(alignment_size=SIZE)
    sources = [source for source in SOURCES if len(source) > 2]
    for backend in (TorchBackend(model), Int8Backend.of(model, RUNNABLE[0])):
        plain, prefixed = decoded(backend, sources), decoded(backend, sources, source_prefix_length=2)
        assert any(min(h.aligned) < 2 for h in plain)
        assert all(min(h.aligned) >= 2 for h in prefixed)
        assert list(map(answer, prefixed)) == list(map(answer, plain))


def test_the_kernels_refuse_a_head_that_does_not_fill_their_vectors() -> None:
    with pytest.raises(KernelsUnavailable, match="alignment must be multiples of 16, not 32, 112 and 24"):
        Int8Backend.of(make_model(alignment_size=24), RUNNABLE[0])
