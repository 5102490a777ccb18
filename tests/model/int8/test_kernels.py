"""model/int8/: the int8 kernels in C: their arithmetic against PyTorch's, their batches, and what happens if they
are unavailable."""

from __future__ import annotations

import gc
import hashlib
import math
import mmap
import platform
import random
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shared_fixtures import with_processor_features
from torch import Tensor, nn

import model.int8.library as kernels
import model.int8.weights as packing
from model.bundle_weights import fill, restored, stored
from model.config import ModelConfig
from model.decoding.batch import rows_taken
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.int8.backend import Int8Backend, layout_of
from model.int8.batch import Int8Batch
from model.int8.isa import INSTRUCTION_SETS, InstructionSet, KernelsUnavailable, choose, processor_features
from model.int8.reference import quantise_rows
from model.machine import cache_folder
from model.transformer import Attention, AttentionRecord, Transformer
from model.weight_shapes import weight_shapes

pytestmark = pytest.mark.slow

VOCABULARY, BOS, EOS = 150, 1, 2  # not a multiple of the panel
LIMITS = Limits(max_source=40, max_target=44, ratio=1.0, margin=6)
GENERIC = INSTRUCTION_SETS[-1]
RECURRENT: dict[str, Any] = {"decoder": "ssru", "norm": "post", "alignment_layer": 1, "alignment_head": 1}
BITS = "21c45cefba1d73e510cdd5968c369a93e4d7ead4f4e912a836ec0506fd028547"
"""SHA-256 of the tokens and log probabilities of made sentences by made weights, on every processor."""
RECURRENT_BITS = "212b0b54050cec338ebdb540d71700fe9fce1eddf230e854a639918e586ba6fd"
"""The same of a recurrent decoder."""


RUNNABLE = [isa.name for isa in INSTRUCTION_SETS if isa.runs_on(platform.machine(), processor_features())]
"""Variants that this processor can run; plain C is always among them."""


def make_model(**fields: Any) -> Transformer:
    """Random weights, large enough that outputs vary with the source and a fair share of them ends."""
    torch.manual_seed(3)
    sizes = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "max_positions": 64}
    shape = {"d_model": 64, "num_heads": 2, "d_ff": 112, "encoder_layers": 2, "decoder_layers": 2}
    model = Transformer(ModelConfig.from_dict({**sizes, **shape, "share_embeddings": "none", **fields})).eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.weight.mul_(1.5)
                if module.bias is not None:
                    module.bias.uniform_(-0.2, 0.2)
            if isinstance(module, nn.LayerNorm):
                module.bias.uniform_(-0.2, 0.2)
        model.output.weight[EOS].mul_(1.4)
    return model


def random_sources(count: int, longest: int = 40, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, VOCABULARY) for _ in range(draw.randint(0, longest))] for _ in range(count)]


def new_hypotheses(sources: Sequence[Sequence[int]], **fields: Any) -> list[Hypothesis]:
    return [Hypothesis(source, LIMITS.target(len(source)), **fields) for source in sources]


def run_to_the_end(batch: Int8Batch) -> None:
    while batch.running:
        batch.step()


def decoded(backend: Int8Backend, sources: Sequence[Sequence[int]], **fields: Any) -> list[Hypothesis]:
    """All sentences decoded together."""
    hypotheses = new_hypotheses(sources, **fields)
    batch = backend.new_batch(rows_taken(hypotheses), LIMITS)
    batch.admit(hypotheses)
    run_to_the_end(batch)
    return hypotheses


def answer(hypothesis: Hypothesis) -> tuple[list[int], list[float]]:
    return hypothesis.tokens, hypothesis.log_probs


def quantised_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What the kernels compute, in double precision; the sums of integers are exact."""
    rows = x.reshape(-1, x.size(-1))
    inputs, input_scale = quantise_rows(rows)
    weights, weight_scale = quantise_rows(weight)
    sums = inputs.double() @ weights.double().T
    y = (sums * input_scale[:, None] * weight_scale).float().reshape(*x.shape[:-1], -1)
    return y if bias is None else y + bias


def compute_as_kernels(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has PyTorch's modules quantise their products and keep the decoder's keys and values in half precision."""
    monkeypatch.setattr(nn.functional, "linear", quantised_linear)

    def with_half_memory(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda query, key, value, *rest: attend(query, key.half().float(), value.half().float(), *rest)

    for attention in model.decoder.modules():
        if isinstance(attention, Attention):
            monkeypatch.setattr(attention, "attend", with_half_memory(attention.attend))


@torch.no_grad()
def parallel_pass(model: Transformer, hypothesis: Hypothesis) -> tuple[list[float], AttentionRecord]:
    """The log probability of each token, by the modules."""
    src = torch.tensor([model.config.source_ids(hypothesis.source)])
    record = AttentionRecord()
    hidden = model.hidden(src, torch.tensor([[BOS, *hypothesis.tokens[:-1]]]), record)
    log_probs = model.output(hidden)[0].log_softmax(-1)
    return log_probs.gather(1, torch.tensor(hypothesis.tokens)[:, None])[:, 0].tolist(), record


@pytest.fixture(scope="module", params=RUNNABLE)
def isa(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ENDING = RECURRENT | {"norm": "residual_post"}  # a fair share of its sentences ends


@pytest.fixture(scope="module", params=[*((name, {}) for name in RUNNABLE), (RUNNABLE[0], ENDING)], ids=str)
def backend(request: pytest.FixtureRequest) -> Int8Backend:
    name, fields = request.param
    return Int8Backend.of(make_model(**fields), name)


SHAPES: list[dict[str, Any]] = [
    {},
    {"norm": "post"},
    {"norm": "residual_post", "positions": "learned"},
    {"norm": "post", "final_norm": True, "attention_bias": False},
    {"d_model": 128, "num_heads": 2, "d_ff": 256, "final_norm": False},
    {"d_model": 96, "num_heads": 1, "share_embeddings": "all"},
    {"d_model": 32, "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 3},
    {"norm": "post", "activation": "swish", "output_bias": True, "share_embeddings": "all"},
    {"source_eos": False},
    {"zero_start": True, "share_embeddings": "all"},
    RECURRENT,
    {"decoder": "ssru", "decoder_layers": 3, "attention_bias": False, "share_embeddings": "all"},
]


@pytest.mark.parametrize("fields", SHAPES, ids=str)
def test_scores_are_those_of_the_modules_with_quantised_products(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(**fields)
    hypotheses = decoded(Int8Backend.of(model, RUNNABLE[0]), random_sources(24))
    assert len({tuple(h.tokens) for h in hypotheses}) > 12
    compute_as_kernels(model, monkeypatch)
    errors = []
    for hypothesis in hypotheses:
        expected, _ = parallel_pass(model, hypothesis)
        errors += [abs(a - b) for a, b in zip(hypothesis.log_probs, expected, strict=True)]
    errors.sort()
    # Sums of floats in another order turn a few roundings the other way, each worth a hundredth or more.
    assert errors[len(errors) // 2] < 1e-4
    assert errors[int(len(errors) * 0.9)] < 0.1


def test_chosen_tokens_are_the_most_probable_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    hypotheses = decoded(Int8Backend.of(model), random_sources(24, seed=1))
    compute_as_kernels(model, monkeypatch)
    for hypothesis in hypotheses:
        src, tgt = torch.tensor([[*hypothesis.source, EOS]]), torch.tensor([[BOS, *hypothesis.tokens[:-1]]])
        with torch.no_grad():
            log_probs = model(src, tgt)[0].log_softmax(-1)
        chosen = log_probs.gather(1, torch.tensor(hypothesis.tokens)[:, None])[:, 0]
        assert (log_probs.amax(-1) - chosen).max() < 0.05


@pytest.mark.parametrize("fields", [{}, {"source_eos": False}, RECURRENT], ids=str)
def test_every_source_token_but_the_end_symbol_can_be_aligned(fields: dict[str, Any]) -> None:
    model = make_model(**fields)
    layer, head = model.config.alignment_layer, model.config.alignment_head
    for backend in (Int8Backend.of(model, RUNNABLE[0]), TorchBackend(model)):
        batch = backend.new_batch(48, LIMITS)
        hypotheses = [
            Hypothesis(source, LIMITS.target(len(source)), record=True, beam_size=size)
            for source in random_sources(12, 3, seed=9)
            for size in (1, 3)
        ]
        batch.admit(hypotheses)
        while batch.running:
            batch.step()
        for hypothesis in hypotheses:
            length = len(model.config.source_ids(hypothesis.source))
            assert len(hypothesis.coverage) == length
            assert max(hypothesis.aligned) < max(1, len(hypothesis.source))
            assert hypothesis.encoder_attention is not None
            assert hypothesis.encoder_attention.shape[-1] == length
            if hypothesis.beam_size == 1:
                assert hypothesis.cross_attention.shape[-1] == length
                cross = hypothesis.cross_attention
                weights = cross.mean((0, 1)) if layer is None else cross[layer, head]  # [target, source]
                assert list(hypothesis.aligned) == weights[:, : max(1, len(hypothesis.source))].argmax(-1).tolist()
                assert np.allclose(hypothesis.coverage, weights[:-1].sum(0), atol=1e-5)
        last = [max(h.aligned) == len(h.source) - 1 for h in hypotheses if len(h.source) > 1]
        assert any(last)


def test_no_token_is_aligned_to_the_source_prefix_which_changes_no_other_bit() -> None:
    backend = Int8Backend.of(make_model(), RUNNABLE[0])
    sources = [source for source in random_sources(12, longest=10) if len(source) > 2]
    plain = decoded(backend, sources, record=True)
    prefixed = decoded(backend, sources, record=True, source_prefix_length=2)
    assert any(min(hypothesis.aligned) < 2 for hypothesis in plain)
    for hypothesis, same in zip(prefixed, plain, strict=True):
        assert answer(hypothesis) == answer(same)
        weights = hypothesis.cross_attention.mean((0, 1))[:, 2 : len(hypothesis.source)]
        assert list(hypothesis.aligned) == (weights.argmax(-1) + 2).tolist()


def test_no_bit_depends_on_the_batch(backend: Int8Backend) -> None:
    sources = random_sources(36, seed=2)
    alone = [answer(decoded(backend, [source])[0]) for source in sources]
    assert len({len(tokens) for tokens, _ in alone}) > 10
    for size in (2, 7, 16, 36):
        order = random.Random(size).sample(range(len(sources)), len(sources))
        for first in range(0, len(order), size):
            numbers = order[first : first + size]
            for number, hypothesis in zip(numbers, decoded(backend, [sources[n] for n in numbers]), strict=True):
                assert answer(hypothesis) == alone[number]


def test_sentences_that_join_or_leave_change_no_bit(backend: Int8Backend) -> None:
    """There are far more sentences than the cache has blocks, so that a block lost or allocated twice would show."""
    sources = random_sources(100, seed=4)
    alone = {tuple(source): answer(decoded(backend, [source])[0]) for source in sources}
    draw, waiting, finished = random.Random(5), new_hypotheses(sources), list[Hypothesis]()
    batch = backend.new_batch(23, LIMITS)
    while waiting or batch.running:
        count = draw.randint(0, batch.free)
        batch.admit([waiting.pop() for _ in range(min(count, len(waiting)))] if count else [])
        if batch.running and draw.random() < 0.1:
            abandoned = batch.remove([draw.choice(batch.running)])
            waiting += new_hypotheses([h.source for h in abandoned])
        if batch.running:
            finished += batch.step()
    assert len(finished) == len(sources)
    assert all(answer(h) == alone[tuple(h.source)] for h in finished)


@pytest.mark.parametrize("most", [3, 16])
def test_several_steps_of_a_call_change_no_bit(backend: Int8Backend, most: int) -> None:
    sources = random_sources(40)
    alone = [answer(h) for h in decoded(backend, sources)]
    hypotheses, batch = new_hypotheses(sources), backend.new_batch(7, LIMITS)
    waiting, finished = list(hypotheses), list[Hypothesis]()
    while waiting or batch.running:
        joining, waiting = waiting[: batch.free], waiting[batch.free :]
        batch.admit(joining)
        found = batch.step(most, 2)
        assert batch.steps[0] == len(found) + len(batch.running)
        finished += found
    assert [answer(h) for h in hypotheses] == alone
    assert len(finished) == len(hypotheses) and all(len(h.aligned) == len(h.tokens) for h in finished)


def test_a_call_takes_as_many_steps_as_are_wanted(backend: Int8Backend) -> None:
    """A sentence takes no part in the steps after its last."""

    def started(**fields: Any) -> Int8Batch:
        hypotheses = [Hypothesis([5, 6], 8, forced=[7] * length) for length in (2, 4, 6)]
        batch = backend.new_batch(4, LIMITS)
        batch.admit([*hypotheses, *([Hypothesis([5], 8, forced=[7] * 9, **fields)] if fields else [])])
        return batch

    batch = started()
    assert len(batch.step(16, 1)) == 1 and list(batch.steps) == [3, 3, 3]
    assert len(batch.step(16)) == 2 and list(batch.steps) == [2, 2, 1, 1]
    assert batch.step(16) == [] and list(batch.steps) == []
    batch = started()
    assert len(batch.step(4, 3)) == 1 and list(batch.steps) == [3, 3, 3, 2]
    batch = started(record=True)
    assert batch.step(16) == [] and list(batch.steps) == [4]
    batch = started()
    batch.admit([Hypothesis([5], 8, spelling=(((7, 1),),))])
    assert batch.step(16) == [] and list(batch.steps) == [4]


def test_sentence_stops_at_its_end_symbol_or_at_its_limit(backend: Int8Backend) -> None:
    hypotheses = decoded(backend, random_sources(60, seed=6))
    reasons = {h.finish_reason for h in hypotheses}
    assert reasons == {"stop", "length"}
    for hypothesis in hypotheses:
        ended = hypothesis.tokens[-1] == EOS
        assert hypothesis.finish_reason == ("stop" if ended else "length")
        assert ended or len(hypothesis.tokens) == hypothesis.limit
        assert EOS not in hypothesis.tokens[:-1]


def test_forcing_the_chosen_tokens_gives_the_same_scores(backend: Int8Backend) -> None:
    for free in decoded(backend, random_sources(20, seed=8)):
        if free.finish_reason == "stop":
            (forced,) = decoded(backend, [free.source], forced=free.tokens[:-1])
            assert answer(forced) == answer(free)


def test_forced_decoding_returns_the_target_and_the_models_scores_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    target = [149, 3, 64, 63, 127, 128]
    (forced,) = decoded(Int8Backend.of(model), [[9, 8, 7]], forced=target)
    assert forced.tokens == [*target, EOS]
    compute_as_kernels(model, monkeypatch)
    assert forced.log_probs == pytest.approx(parallel_pass(model, forced)[0], abs=0.05)


def test_recorded_attention_is_the_modules_and_changes_no_bit(
    backend: Int8Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sources = make_model(**backend.config.to_dict()), random_sources(9, seed=9)
    plain = decoded(backend, sources)
    batch = backend.new_batch(9, LIMITS)
    mixed = [Hypothesis(s, LIMITS.target(len(s)), record=number % 2 == 0) for number, s in enumerate(sources)]
    batch.admit(mixed)
    run_to_the_end(batch)
    assert list(map(answer, mixed)) == list(map(answer, plain))
    compute_as_kernels(model, monkeypatch)
    for hypothesis in mixed[::2]:
        _, record = parallel_pass(model, hypothesis)
        assert hypothesis.encoder_attention is not None
        for ours, theirs in (
            (hypothesis.encoder_attention, record.encoder),
            (hypothesis.decoder_attention, record.decoder),
            (hypothesis.cross_attention, record.cross),
        ):
            assert np.allclose(ours.sum(-1), 1, atol=1e-5)
            assert len(ours) == len(theirs)
            # A rounding that turns the other way changes a few weights by more.
            assert not theirs or np.quantile(np.abs(ours - torch.cat(theirs).numpy()), 0.999) < 0.02


def test_sentence_with_non_finite_numbers_affects_no_other(backend: Int8Backend) -> None:
    """An embedding of NaN: sentences with that token get NaN as scores, and the others what they would get alone."""
    model = make_model(**backend.config.to_dict())
    with torch.no_grad():
        model.source_embedding.tokens.weight[77] = math.nan
    spoilt = Int8Backend.of(model)
    sources = [source for source in random_sources(30, seed=10) if 77 not in source]
    hypotheses = decoded(spoilt, [*sources, [5, 77, 6]])
    assert len(hypotheses[-1].log_probs) == 1 and math.isnan(hypotheses[-1].log_probs[0])
    assert list(map(answer, hypotheses[:-1])) == list(map(answer, decoded(backend, sources)))


def test_the_longest_source_and_target_fit(backend: Int8Backend) -> None:
    limits = Limits(max_source=33, max_target=33)
    batch = backend.new_batch(2, limits)
    sources = [[4] * 33, [5] * 33]
    hypotheses = [Hypothesis(source, 33, forced=[6] * 33) for source in sources]
    batch.admit(hypotheses)
    run_to_the_end(batch)
    assert [len(h.tokens) for h in hypotheses] == [34, 34]


@pytest.mark.parametrize(
    "hypothesis",
    [
        Hypothesis([4] * 41, 10),
        Hypothesis([4], 45),
        Hypothesis([4], 5, forced=[4] * 45),
        Hypothesis([VOCABULARY], 5),
        Hypothesis([-1], 5),
        Hypothesis([4], 5, forced=[VOCABULARY]),
    ],
)
def test_ids_and_lengths_out_of_range_are_refused(backend: Int8Backend, hypothesis: Hypothesis) -> None:
    batch = backend.new_batch(2, LIMITS)
    with pytest.raises(ValueError, match=r"beyond|under"):
        batch.admit([Hypothesis([5], 5), hypothesis])
    assert batch.running == []


def test_each_row_is_quantised_with_its_own_scale() -> None:
    quantised, scale = quantise_rows(torch.tensor([[0.0, 0.0], [-2.54, 1.27], [1e-30, -1e-30]]))
    assert quantised.tolist() == [[0, 0], [-127, 64], [127, -127]]  # 63.5 goes to the even one
    assert scale.tolist() == pytest.approx([0, 0.02, 1e-30 / 127])


def test_widths_that_fill_no_vector_are_refused() -> None:
    with pytest.raises(KernelsUnavailable, match="multiples of 16"):
        Int8Backend.of(make_model(d_model=72, num_heads=3))


@pytest.mark.parametrize("isa", [isa for isa in INSTRUCTION_SETS if isa.machine in ("", platform.machine())], ids=str)
def test_every_variant_compiles_on_any_processor_of_its_architecture(isa: InstructionSet) -> None:
    compiler = next(filter(None, map(shutil.which, kernels.COMPILERS)))
    macro = f"-DISA_{isa.name.upper()}"
    command = [compiler, *kernels.FLAGS, *isa.flags, macro, "-Wall", "-fsyntax-only", str(kernels.SOURCES[0])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_missing_compiler_and_library_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelsUnavailable, match="no C compiler"):
        kernels.compile_library(tmp_path, GENERIC)


def test_compiler_errors_are_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho unknown flag >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(kernels, "COMPILERS", (str(compiler),))
    with pytest.raises(KernelsUnavailable, match="unknown flag"):
        kernels.compile_library(tmp_path, GENERIC)
    assert list(tmp_path.iterdir()) == [compiler]


def test_compiled_library_needs_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "FLAGS", ("-std=gnu11", "-O0", "-shared", "-fPIC"))  # a tenth of the time
    compiled = kernels.compile_library(cache_folder(), GENERIC)
    copies = tuple(Path(shutil.copy(source, tmp_path)) for source in kernels.SOURCES)  # nothing lies beside these
    monkeypatch.setattr(kernels, "SOURCES", copies)
    monkeypatch.setenv("PATH", "")
    kernels.library.cache_clear()
    try:
        assert kernels.library("generic")._name == str(compiled)
    finally:
        kernels.library.cache_clear()


def test_best_instruction_set_of_the_processor_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with_processor_features(monkeypatch, "avx2", "fma", "f16c", "avx_vnni", "sse2")
    assert [isa.name for isa in choose()] == ["avxvnni", "avx2"]
    assert [isa.name for isa in choose("avx2")] == ["avx2"]
    with pytest.raises(KernelsUnavailable, match="no avx512vnni"):
        choose("avx512vnni")
    with pytest.raises(ValueError, match=r"auto or one of .*, not 'mmx'"):
        choose("mmx")


def test_plain_c_is_used_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with_processor_features(monkeypatch, "sse2")
    with pytest.raises(KernelsUnavailable, match="this processor has no"):
        choose()
    assert [isa.name for isa in choose("generic")] == ["generic"]


def test_instruction_set_unknown_to_the_compiler_falls_back_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = InstructionSet("generic", "", (), ("-mno-such-flag",))
    monkeypatch.setattr(kernels, "choose", lambda name: (odd, GENERIC))
    kernels.library.cache_clear()
    try:
        assert "kernels-generic" in kernels.library()._name
    finally:
        kernels.library.cache_clear()


# Linux gives tile registers only where the stack for signals can hold them.
WITH_A_SMALL_SIGNAL_STACK = """
import ctypes
from model.int8.library import library

class Stack(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

room = ctypes.create_string_buffer(6000)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(room), 0, len(room))), None) == 0
print(library()._name)
"""


@pytest.mark.skipif("amx_int8" not in processor_features(), reason="this processor has no AMX")
def test_next_instruction_set_is_taken_where_the_system_refuses_one() -> None:
    command = [sys.executable, "-c", WITH_A_SMALL_SIGNAL_STACK]
    assert "kernels-avx512vnni" in subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("fields", SHAPES, ids=str)
def test_every_instruction_set_gives_the_same_bits(fields: dict[str, Any]) -> None:
    """So that other tests need only one of them."""
    model, sources = make_model(**fields), random_sources(24, seed=4)
    found = {}
    for name in RUNNABLE:
        greedy = decoded(Int8Backend.of(model, name), sources, record=True)
        beams = decoded(Int8Backend.of(model, name), sources[:4], beam_size=3)
        recorded = [(h.encoder_attention, h.decoder_attention, h.cross_attention) for h in greedy]
        attention = [x.tobytes() for h in recorded for x in h if x is not None]
        aligned = [(list(h.aligned), list(h.coverage)) for h in (*greedy, *beams)]
        found[name] = [answer(h) for h in (*greedy, *beams)], attention, aligned
    expected = found.pop("generic")
    assert found == dict.fromkeys(found, expected)


@pytest.mark.skipif(
    not {"avx512vl", "avx512_vnni"} <= processor_features(), reason="this processor has no AVX-512 VNNI"
)
@pytest.mark.parametrize("fields", [{}, RECURRENT], ids=["attention", "ssru"])
def test_avx_vnni_gives_the_same_bits_in_the_encoding_of_avx512(fields: dict[str, Any]) -> None:
    """The instruction is the same in both encodings. So its kernels run where there is only the other, but for that."""
    [avxvnni] = [isa for isa in INSTRUCTION_SETS if isa.name == "avxvnni"]
    library = kernels.load_library(replace(avxvnni, flags=(*avxvnni.flags, "-DVNNI_AS_AVX512")))
    model, sources = make_model(**fields), random_sources(24, seed=4)
    weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    memory = packing.pack_into_memory(weights, model.config, layout_of(library), library)
    found = [answer(h) for h in decoded(Int8Backend(memory, model.config, library), sources)]
    assert found == [answer(h) for h in decoded(Int8Backend.of(model, "generic"), sources)]


@pytest.mark.parametrize(("fields", "bits"), [({}, BITS), (RECURRENT, RECURRENT_BITS)], ids=["attention", "ssru"])
def test_bits_are_the_recorded_ones_on_every_machine(fields: dict[str, Any], bits: str) -> None:
    """One machine cannot show that another gives the same bits, now or later. The weights are raw random bits."""
    config = make_model(**fields).config
    raw = np.random.PCG64(1)
    weights = {
        name: (raw.random_raw(math.prod(shape)).astype(np.int64) % 2001 - 1000).astype(np.float32).reshape(shape)
        * np.float32(2**-12 if len(shape) > 1 else 2**-10)
        for name, shape in weight_shapes(config).items()
    }
    for name, weight in weights.items():
        if name.endswith("norm.weight"):
            weight += 1
    digests = set()
    for name in RUNNABLE:
        hypotheses = decoded(Int8Backend.pack(weights, config, name), random_sources(40, seed=9))
        assert len({tuple(h.tokens) for h in hypotheses}) > 20
        found = b"".join(array("i", h.tokens).tobytes() + array("f", h.log_probs).tobytes() for h in hypotheses)
        digests.add(hashlib.sha256(found).hexdigest())
    assert digests == {bits}


def test_batch_outlives_its_runner() -> None:
    """The weights that it points to must live as long as it does."""
    model = make_model()
    found = []
    for backend in (Int8Backend.of(model), None):
        batch = (backend or Int8Backend.of(model)).new_batch(1, LIMITS)
        gc.collect()
        found.append(Hypothesis([5, 6, 7], LIMITS.target(3)))
        batch.admit([found[-1]])
        run_to_the_end(batch)
    assert found[0].tokens == found[1].tokens


@pytest.mark.parametrize(("sharing", "tables", "saved"), [("none", 2, 3 + 3), ("decoder", 2, 3 + 4), ("all", 1, 4)])
def test_token_embeddings_are_packed_in_the_smallest_type_that_holds_them(
    sharing: str, tables: int, saved: int, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In int8 an embedding that shares the output's weights takes no memory of its own."""
    model, sizes, smallest = make_model(share_embeddings=sharing, d_model=128), [], packing.bytes_per_number
    for storage in ("int8", "float16", "float32"):
        fill(model, restored(stored(dict(model.named_parameters()), storage)))
        found = []
        for number_bytes in (smallest, lambda _: 4):
            monkeypatch.setattr(packing, "bytes_per_number", number_bytes)
            backend = Int8Backend.of(model, isa)
            found.append([answer(h) for h in decoded(backend, random_sources(8))])
            sizes.append(backend.weight_bytes)
        assert found[0] == found[1]
        model = make_model(share_embeddings=sharing, d_model=128)
    numbers = VOCABULARY * 128
    assert sizes[0] < sizes[2] < sizes[4] == sizes[1] == sizes[3] == sizes[5]
    assert sizes[4] - sizes[2] == pytest.approx(2 * tables * numbers, rel=0.01)
    assert sizes[4] - sizes[0] == pytest.approx(saved * numbers, rel=0.05)


@pytest.mark.parametrize("sharing", ["all", "decoder", "none"])
def test_weight_arena_fits_any_sharing_and_vocabulary_size(sharing: str) -> None:
    """With 10,000 pieces, a small model consists mostly of its embeddings."""
    sizes = {"source_vocab_size": 10_000, "target_vocab_size": 10_000, "share_embeddings": sharing}
    model = make_model(**sizes, d_model=128, d_ff=128, encoder_layers=1, decoder_layers=1)
    (hypothesis,) = decoded(Int8Backend.of(model, "generic"), [[9_999, 9_998]])
    assert hypothesis.tokens


def test_system_without_huge_pages_works_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memory(mmap.mmap):
        def madvise(self, *hint: Any) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Memory)
    assert Int8Backend.of(make_model(), "generic").model
