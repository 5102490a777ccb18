"""Cached, batched decoding against plain loops: the same tokens, scores and attention, whichever sentences join and
leave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from torch import Tensor, nn

from model.config import ModelConfig, NormPlacement
from model.decoding import beam_decode, greedy_decode
from model.decoding.batch import DecodeBatch, DecoderState
from model.decoding.cuda_graphs import CudaGraphDecoderState
from model.decoding.kv_cache import KVCache
from model.decoding.torch_backend import TorchBackend, decode_step, encode_batch
from model.hypothesis import Hypothesis, Limits
from model.transformer import AttentionRecord, Embedding, Transformer

NORMS: tuple[NormPlacement, ...] = ("post", "pre", "residual_post")
SOURCE_VOCABULARY, TARGET_VOCABULARY = 60, 40
BOS, EOS = 1, 2
LIMITS = Limits(max_source=30, max_target=36, ratio=1.0, margin=5)


def lively_model(*, seed: int = 0, **fields: Any) -> Transformer:
    """Random weights, scaled so that outputs vary with source and step, and a fair share of them ends."""
    torch.manual_seed(seed)
    sizes = {"source_vocab_size": SOURCE_VOCABULARY, "target_vocab_size": TARGET_VOCABULARY, "max_positions": 64}
    shape = {"d_model": 32, "num_heads": 4, "d_ff": 64, "encoder_layers": 2, "decoder_layers": 2}
    model = Transformer(ModelConfig.from_dict({**sizes, **shape, "share_embeddings": "none", **fields})).eval()
    with torch.no_grad():
        for module in [m for layers in (model.encoder, model.decoder) for m in layers.modules()]:
            if isinstance(module, nn.Linear):
                module.weight.mul_(2)
        for embedding in [m for m in model.modules() if isinstance(m, Embedding)]:
            embedding.tokens.weight.mul_(1.5)
            if isinstance(embedding.positions, nn.Parameter):
                embedding.positions.mul_(50)
        model.output.weight[EOS].mul_(1.3)
    return model


def random_sources(count: int, longest: int = 30, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, SOURCE_VOCABULARY) for _ in range(draw.randint(0, longest))] for _ in range(count)]


@torch.no_grad()
def plain_loop(model: Transformer, source: Sequence[int], limit: int) -> list[int]:
    """Greedy decoding without a cache, one sentence at a time: the whole decoder again for every token."""
    src = torch.tensor([[*source, EOS]])
    memory, mask = model.memory(model.encode(src)), model.source_mask(src)
    tokens: list[int] = []
    while len(tokens) < limit and EOS not in tokens:
        hidden = model.decode(torch.tensor([[BOS, *tokens]]), memory, mask)
        tokens.append(int(model.output(hidden[0, -1]).argmax()))
    return tokens


@torch.no_grad()
def parallel_pass(model: Transformer, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, AttentionRecord]:
    """The log probability of each of `target` [target], and the attention weights, by the pass of training."""
    record = AttentionRecord()
    src, tgt = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target[:-1]]])
    log_probs = model.output(model.hidden(src, tgt, record)).log_softmax(-1)[0]  # [target, vocabulary]
    return log_probs[range(len(target)), list(target)], record


def alone(model: Transformer, sources: Sequence[Sequence[int]], limits: Limits = LIMITS) -> list[list[int]]:
    backend = TorchBackend(model)
    return [greedy_decode(backend, [source], limits)[0].tokens for source in sources]


def run_to_the_end(batch: DecodeBatch) -> None:
    while batch.running:
        batch.step()


# ---- The same tokens as a plain loop


VARIED = random_sources(70, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 7, 64, 500])
def test_batched_cached_decoding_equals_a_plain_loop(rows: int, decoded_plainly: list[list[int]]) -> None:
    hypotheses = greedy_decode(lively_model(), VARIED, LIMITS, rows)
    assert [hypothesis.tokens for hypothesis in hypotheses] == decoded_plainly
    assert [hypothesis.source for hypothesis in hypotheses] == VARIED


@pytest.fixture(scope="module")
def decoded_plainly() -> list[list[int]]:
    model = lively_model()
    return [plain_loop(model, source, LIMITS.target(len(source))) for source in VARIED]


@pytest.mark.slow
def test_compared_sentences_are_varied(decoded_plainly: list[list[int]]) -> None:
    assert len({len(source) for source in VARIED}) > 25
    ended = Counter(tokens[-1] == EOS for tokens in decoded_plainly)
    assert min(ended[True], ended[False]) >= 20
    assert len({tuple(tokens) for tokens in decoded_plainly}) > 50
    assert len({token for tokens in decoded_plainly for token in tokens}) > 20
    assert len({len(tokens) for tokens in decoded_plainly}) > 20


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_every_norm_and_position_decodes_like_a_plain_loop(norm: str, positions: str) -> None:
    model = lively_model(norm=norm, positions=positions, attention_bias=False)
    sources = random_sources(12, seed=3)
    expected = [plain_loop(model, source, LIMITS.target(len(source))) for source in sources]
    assert [hypothesis.tokens for hypothesis in greedy_decode(model, sources, LIMITS, rows=5)] == expected


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@torch.no_grad()
def test_the_parallel_pass_equals_the_stepwise_pass(norm: str, positions: str) -> None:
    model = lively_model(norm=norm, positions=positions)
    sources = random_sources(5, seed=1)
    tgt = torch.randint(3, TARGET_VOCABULARY, (5, 12))
    tgt[:, 0] = BOS
    longest = max(map(len, sources)) + 1
    src = torch.tensor([[*source, EOS] + [0] * (longest - len(source) - 1) for source in sources])
    parallel = model(src, tgt)

    encoded = encode_batch(model, sources)
    cache = KVCache(model.config, 5, longest, 12)
    cache.admit(encoded.memory, encoded.lengths)
    stepwise = torch.stack([decode_step(model, cache, tokens) for tokens in tgt.T], 1)
    torch.testing.assert_close(stepwise, parallel, rtol=1e-5, atol=1e-4)
    assert stepwise.shape == (5, 12, TARGET_VOCABULARY)


# ---- Scores, limits and reasons


def test_scores_are_the_log_probabilities_of_the_parallel_pass() -> None:
    model = lively_model()
    for hypothesis in greedy_decode(model, random_sources(20), LIMITS):
        expected, _ = parallel_pass(model, hypothesis.source, hypothesis.tokens)
        torch.testing.assert_close(torch.tensor(hypothesis.log_probs), expected, rtol=0, atol=1e-4)


def test_sentence_stops_at_its_end_symbol_or_at_its_limit() -> None:
    reasons = Counter[str]()
    for hypothesis in greedy_decode(lively_model(), random_sources(100), LIMITS):
        assert len(hypothesis.log_probs) == len(hypothesis.tokens) <= LIMITS.target(len(hypothesis.source))
        assert EOS not in hypothesis.tokens[:-1]
        if hypothesis.finish_reason == "stop":
            assert hypothesis.tokens[-1] == EOS
        else:
            assert hypothesis.finish_reason == "length"
            assert hypothesis.tokens[-1] != EOS
            assert len(hypothesis.tokens) == LIMITS.target(len(hypothesis.source))
        reasons[hypothesis.finish_reason] += 1
    assert set(reasons) == {"stop", "length"}


def test_end_symbol_at_the_limit_counts_as_an_end() -> None:
    model = lively_model()
    ended = next(h for h in greedy_decode(model, random_sources(100), LIMITS) if h.finish_reason == "stop")
    source, tokens = ended.source, ended.tokens
    for limit, reason in ((len(tokens), "stop"), (len(tokens) - 1, "length")):
        [again] = greedy_decode(model, [source], Limits(30, limit, ratio=99, margin=99))
        assert (again.tokens, again.finish_reason) == (tokens[:limit], reason)


@pytest.mark.parametrize(
    ("limits", "source_length", "expected"),
    [
        (Limits(), 0, 16),
        (Limits(), 10, 36),
        (Limits(), 119, 254),
        (Limits(), 120, 256),
        (Limits(), 256, 256),
        (Limits(ratio=1.5, margin=0), 3, 4),
    ],
)
def test_target_limit_depends_on_the_source_length(limits: Limits, source_length: int, expected: int) -> None:
    assert limits.target(source_length) == expected


def test_source_over_the_limit_is_refused_by_number() -> None:
    sources = [[5] * 30, [5] * 31]
    with pytest.raises(ValueError, match="source 1 has 31 tokens, over the limit of 30"):
        greedy_decode(lively_model(), sources, LIMITS)


def test_longest_source_and_target_within_the_limits_fit() -> None:
    model = lively_model(max_positions=20)
    with torch.no_grad():
        model.output.weight[EOS] = 0
    limits = Limits(max_source=19, max_target=20, ratio=1, margin=20)
    [hypothesis] = greedy_decode(model, [[5] * 19], limits)
    assert (len(hypothesis.tokens), hypothesis.finish_reason) == (20, "length")


def test_empty_batch_decodes_to_nothing() -> None:
    assert greedy_decode(lively_model(), [], LIMITS) == []


# ---- Joining and leaving


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Verbs in order: "join" with that many waiting sentences, "step" once, "leave" with the running sentence of that
    number."""
    verb = st.one_of(
        st.tuples(st.just("join"), st.integers(1, 4)),
        st.tuples(st.just("step"), st.integers(1, 6)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
    )
    return draw(st.lists(verb, max_size=30))


MODEL = lively_model()
SOURCES = random_sources(40, longest=12, seed=7)


@pytest.fixture(scope="module")
def decoded_alone() -> list[list[int]]:
    return alone(MODEL, SOURCES)


@pytest.mark.slow
@draw_examples(30)
@given(schedule=schedules())
def test_sentences_that_join_or_leave_change_no_tokens(
    schedule: list[tuple[str, int]], decoded_alone: list[list[int]]
) -> None:
    batch = TorchBackend(MODEL).new_batch(6, LIMITS)
    everybody = [Hypothesis(source, LIMITS.target(len(source))) for source in SOURCES]
    waiting, finished, abandoned = list(everybody), list[Hypothesis](), list[Hypothesis]()
    for verb, number in schedule:
        if verb == "join" and batch.free and waiting:
            batch.admit([waiting.pop() for _ in range(min(number, batch.free, len(waiting)))])
        elif verb == "leave" and number < len(batch.running):
            abandoned += batch.remove([batch.running[number]])
        elif verb == "step":
            for _ in range(number):
                finished += batch.step() if batch.running else []
        assert batch.free == 6 - len(batch.running)
        assert [h.finish_reason for h in batch.running] == [None] * len(batch.running)
    started = [h for h in everybody if all(h is not other for other in waiting)]
    assert len(finished) + len(abandoned) + len(batch.running) == len(started)
    assert all(h.finish_reason for h in finished)
    abandoned += batch.running
    for hypothesis, expected in zip(everybody, decoded_alone, strict=True):
        assert hypothesis.tokens == expected[: len(hypothesis.tokens)]
        if any(hypothesis is other for other in finished):
            assert hypothesis.tokens == expected
        else:
            assert hypothesis.finish_reason is None


@pytest.mark.slow
def test_scores_do_not_depend_on_the_batch() -> None:
    together = greedy_decode(MODEL, SOURCES[:20], LIMITS, rows=16)
    for hypothesis, source in zip(together, SOURCES[:20], strict=True):
        [own] = greedy_decode(MODEL, [source], LIMITS)
        assert hypothesis.log_probs == pytest.approx(own.log_probs, abs=1e-4)


def test_removing_no_row_changes_nothing() -> None:
    batch = TorchBackend(MODEL).new_batch(3, LIMITS)
    batch.admit([Hypothesis(source, 8) for source in SOURCES[:3]])
    running = list(batch.running)
    assert batch.remove([]) == []
    assert [id(h) for h in batch.running] == [id(h) for h in running]


def test_equal_sentences_are_distinguished(decoded_alone: list[list[int]]) -> None:
    batch = TorchBackend(MODEL).new_batch(3, LIMITS)
    first, second, third = (Hypothesis(SOURCES[0], LIMITS.target(len(SOURCES[0]))) for _ in range(3))
    batch.admit([first, second, third])
    batch.remove([second])
    run_to_the_end(batch)
    assert first.tokens == third.tokens == decoded_alone[0]
    assert second.tokens == []


def test_sentences_that_do_not_fit_are_not_admitted() -> None:
    batch = TorchBackend(MODEL).new_batch(2, LIMITS)
    with pytest.raises(AssertionError):
        batch.admit([Hypothesis([5], 4) for _ in range(3)])
    with pytest.raises(AssertionError):
        batch.admit([Hypothesis([5] * 31, 4)])
    assert batch.running == []


# ---- The fixed shapes of a GPU; here a step runs without a graph


class FixedShapeBackend(TorchBackend):
    state_type = CudaGraphDecoderState

    def new_state(self, rows: int, limits: Limits) -> DecoderState:
        return self.state_type(self.model, rows, limits)


def test_fixed_shapes_give_the_tokens_and_scores_of_dynamic_ones(decoded_alone: list[list[int]]) -> None:
    fixed = greedy_decode(FixedShapeBackend(MODEL, tiled=False), SOURCES, LIMITS, rows=6)
    assert [h.tokens for h in fixed] == decoded_alone
    for hypothesis, usual in zip(fixed, greedy_decode(MODEL, SOURCES, LIMITS, rows=6), strict=True):
        assert hypothesis.log_probs == pytest.approx(usual.log_probs, abs=1e-4)


def test_fixed_shapes_support_forcing_and_recording_beside_other_sentences(decoded_alone: list[list[int]]) -> None:
    sentences = [Hypothesis(SOURCES[0], 20, forced=[7, 8]), Hypothesis(SOURCES[1], 20, record=True)]
    sentences.append(Hypothesis(SOURCES[2], LIMITS.target(len(SOURCES[2]))))
    batch = FixedShapeBackend(MODEL, tiled=False).new_batch(5, LIMITS)
    batch.admit(sentences)
    run_to_the_end(batch)
    assert sentences[0].tokens == [7, 8, EOS]
    assert sentences[1].cross_attention.shape[-1] == len(SOURCES[1]) + 1
    assert sentences[2].tokens == decoded_alone[2]


def test_a_fixed_shape_step_reuses_the_same_memory() -> None:
    """A captured graph reads and writes at the same addresses as when it was captured."""
    seen = set()

    class Noting(CudaGraphDecoderState):
        def _compute(self) -> None:
            super()._compute()
            tensors = (self._last, self._best, self._log_probs, self._positions, self._cache._row_indices)
            masks = (self._cache.mask(), self._cache.memory_mask(), *self._cache.memory(0), *self._cache._keys)
            seen.add((*(t.data_ptr() for t in tensors), *(tuple(t.shape) for t in (*tensors, *masks))))

    class NotingBackend(FixedShapeBackend):
        state_type = Noting

    greedy_decode(NotingBackend(MODEL, tiled=False), SOURCES, LIMITS, rows=6)
    assert len(seen) == 1


# ---- Forced targets


def test_forced_decoding_returns_the_target_and_the_models_scores_for_it(decoded_alone: list[list[int]]) -> None:
    batch = TorchBackend(MODEL).new_batch(6, LIMITS)
    draw = random.Random(5)
    targets = [[draw.randrange(3, TARGET_VOCABULARY) for _ in range(length)] for length in (0, 1, 5, 17)]
    forced = [Hypothesis(SOURCES[n], len(t), forced=t) for n, t in enumerate(targets)]
    free = [Hypothesis(SOURCES[n], LIMITS.target(len(SOURCES[n]))) for n in (4, 5)]
    batch.admit([free[0], *forced, free[1]])
    run_to_the_end(batch)
    for hypothesis, target in zip(forced, targets, strict=True):
        assert (hypothesis.tokens, hypothesis.finish_reason) == ([*target, EOS], "stop")
        expected, _ = parallel_pass(MODEL, hypothesis.source, hypothesis.tokens)
        torch.testing.assert_close(torch.tensor(hypothesis.log_probs), expected, rtol=0, atol=1e-4)
    assert [h.tokens for h in free] == [decoded_alone[4], decoded_alone[5]]


def test_forcing_the_models_own_choice_gives_its_scores() -> None:
    [own] = [h for h in greedy_decode(MODEL, SOURCES, LIMITS) if h.finish_reason == "stop"][:1]
    batch = TorchBackend(MODEL).new_batch(1, LIMITS)
    forced = Hypothesis(own.source, len(own.tokens) - 1, forced=own.tokens[:-1])
    batch.admit([forced])
    run_to_the_end(batch)
    assert forced.tokens == own.tokens
    assert forced.log_probs == pytest.approx(own.log_probs, abs=1e-4)


# ---- Attention, from the pass that decodes


def recorded(model: Transformer) -> list[Hypothesis]:
    """Six sentences decoded together, all but one recorded, in a batch that changed meanwhile; one was forced."""
    batch = TorchBackend(model).new_batch(4, LIMITS)
    waiting = [Hypothesis(s, LIMITS.target(len(s)), record=n != 1) for n, s in enumerate(random_sources(6, seed=11))]
    everybody = list(waiting)
    forced = waiting[4]
    forced.forced = [7, 8, 9, 10]
    while waiting or batch.running:
        if waiting and batch.free:
            batch.admit([waiting.pop(0) for _ in range(min(2, batch.free, len(waiting)))])
        batch.step()
    return everybody


@pytest.mark.parametrize("norm", NORMS)
def test_recorded_attention_sums_to_one_and_equals_that_of_the_parallel_pass(norm: str) -> None:
    model = lively_model(norm=norm)
    hypotheses = recorded(model)
    assert len({len(h.tokens) for h in hypotheses}) > 2
    for hypothesis in [h for h in hypotheses if h.record]:
        source, target = len(hypothesis.source) + 1, len(hypothesis.tokens)
        encoder, decoder, cross = (
            hypothesis.encoder_attention,
            hypothesis.decoder_attention,
            hypothesis.cross_attention,
        )
        assert encoder is not None
        assert encoder.shape == (2, 4, source, source)
        assert decoder.shape == (2, 4, target, target)
        assert cross.shape == (2, 4, target, source)
        assert np.array_equal(decoder, np.tril(decoder))
        _, record = parallel_pass(model, hypothesis.source, hypothesis.tokens)
        for weights, expected in ((encoder, record.encoder), (decoder, record.decoder), (cross, record.cross)):
            # Padding is cut off, so that rows sum to one says that none of the weight went there.
            np.testing.assert_allclose(weights.sum(-1), 1, rtol=1.3e-6, atol=1e-5)
            torch.testing.assert_close(torch.from_numpy(weights), torch.stack(expected, 1)[0], rtol=0, atol=1e-4)


@torch.no_grad()
def test_padding_gets_no_attention_while_decoding() -> None:
    sources = [[5, 6, 7, 8, 9], [5], []]
    encoded = encode_batch(MODEL, sources, record=True)
    visible = torch.arange(6) < torch.tensor([6, 2, 1])[:, None]  # [batch, source]
    cache = KVCache(MODEL.config, 4, 6, 8)
    cache.admit(encoded.memory, encoded.lengths)
    record = AttentionRecord()
    for _ in range(3):
        decode_step(MODEL, cache, torch.tensor([7, 8, 9]), record)
    late = encode_batch(MODEL, [[5, 6]])
    cache.admit(late.memory, late.lengths)
    decode_step(MODEL, cache, torch.tensor([7, 8, 9, BOS]), record)
    for weights in [*encoded.attention, *record.cross]:
        rows = min(3, weights.size(0))
        masked = ~visible[:rows, None, None].expand_as(weights[:rows])
        assert (weights[:rows][masked] == 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    # The newcomer has one target position; the three behind the others' are not its own.
    for weights in record.decoder[-2:]:
        assert weights[3].squeeze(1).tolist() == [[1, 0, 0, 0]] * 4
        assert (weights[:3] > 0).all()


def test_only_requested_attention_is_recorded() -> None:
    hypotheses = recorded(MODEL)
    assert hypotheses[1].encoder_attention is None
    assert hypotheses[1].decoder_rows == []
    assert encode_batch(MODEL, [[5]]).attention == []


def test_recording_changes_no_tokens() -> None:
    sources = random_sources(6, seed=11)
    plain = alone(MODEL, sources)
    assert [h.tokens for n, h in enumerate(recorded(MODEL)) if n != 4] == [t for n, t in enumerate(plain) if n != 4]


def test_decoding_computes_no_gradients() -> None:
    [hypothesis] = greedy_decode(MODEL, [[5, 6]], LIMITS)
    assert all(parameter.grad is None for parameter in MODEL.parameters())
    batch = TorchBackend(MODEL).new_batch(1, LIMITS)
    again = Hypothesis([5, 6], hypothesis.limit, record=True)
    batch.admit([again])
    run_to_the_end(batch)
    assert len(again.cross_rows) == len(again.tokens)


# ---- Beams


@torch.no_grad()
def plain_beam(
    model: Transformer, source: Sequence[int], limit: int, beam_size: int, penalty: float = 1.0, narrowing: bool = False
) -> list[tuple[float, list[int]]]:
    """Beam search without a cache over the whole vocabulary: finished hypotheses with their scores, best first."""
    src = torch.tensor([[*source, EOS]])
    memory, mask = model.memory(model.encode(src)), model.source_mask(src)
    going: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    while going and len(ended) < beam_size:
        options = []
        for total, tokens in going:
            hidden = model.decode(torch.tensor([[BOS, *tokens]]), memory, mask)
            log_probs = model.output(hidden[0, -1]).log_softmax(-1).tolist()
            options += [(total + log_prob, [*tokens, token]) for token, log_prob in enumerate(log_probs)]
        options.sort(reverse=True)
        ends = [tokens[-1] == EOS or len(tokens) == limit for _, tokens in options]
        width = beam_size - len(ended) if narrowing else beam_size
        best = zip(options[:width], ends[:width], strict=True)
        ended += [(total / len(tokens) ** penalty, tokens) for (total, tokens), end in best if end]
        if narrowing:
            options = options[:width]
        going = [option for option, end in zip(options, ends, strict=False) if not end][:beam_size]
    return sorted(ended, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("narrowing", [False, True])
@pytest.mark.parametrize(("beam_size", "penalty"), [(2, 1.0), (4, 1.0), (4, 0.2), (4, 0.0)])
def test_beam_search_equals_a_plain_implementation(beam_size: int, penalty: float, narrowing: bool) -> None:
    model, sources = lively_model(seed=5), random_sources(8, longest=12, seed=9)
    search: Any = {"length_penalty": penalty, "narrowing": narrowing}
    for source, found in zip(sources, beam_decode(model, sources, LIMITS, beam_size, **search), strict=True):
        expected = plain_beam(model, source, LIMITS.target(len(source)), beam_size, penalty, narrowing)
        assert [h.tokens for h in found.finished] == [tokens for _, tokens in expected]
        assert [h.ranking_score for h in found.finished] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("narrowing", [False, True])
def test_batched_beams_equal_single_ones_for_any_number_of_rows(narrowing: bool) -> None:
    model, sources = lively_model(seed=5), random_sources(8, seed=9)
    single = [beam_decode(model, [source], LIMITS, 3, narrowing=narrowing)[0] for source in sources]
    for rows in (3, 7, 64):
        for alone, found in zip(single, beam_decode(model, sources, LIMITS, 3, rows, narrowing=narrowing), strict=True):
            assert [answer(h) for h in alone.finished] == [answer(h) for h in found.finished]
            assert found.tokens == found.finished[0].tokens


def answer(hypothesis: Hypothesis) -> tuple[list[int], list[float]]:
    return hypothesis.tokens, hypothesis.log_probs


def test_a_beam_size_must_fit_the_number_of_rows() -> None:
    for beam_size in (0, 5):
        with pytest.raises(ValueError, match="the beam size must be from 1 to the number of rows"):
            beam_decode(lively_model(), [[3]], LIMITS, beam_size, rows=4)
