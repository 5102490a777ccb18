"""What a batch of the Triton engine must do: what `DecodeBatch` does, in the same bits whatever else is in it.

Tests run these in Triton's interpreter (`test_triton.py`) and on a GPU (`test_cuda.py`), with tiny models there and
here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch

from model.config import ModelConfig
from model.decoding.batch import Batch
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer
from model.triton import batch as batch_module
from model.triton import network
from model.triton.backend import TritonBackend, with_triton
from model.triton.batch import STEPS, PlainBatch, TritonBatch
from model.triton.graphs import UNCAPTURED_STEPS

VOCABULARY = 40
LIMITS = Limits(max_source=9, max_target=7, ratio=0.7, margin=2)
Answer = tuple[list[int], list[float], list[int], list[float], str | None]


def model_of(seed: int, dtype: torch.dtype, device: str, **fields: Any) -> Transformer:
    """A random model whose sentences end after some tokens, by themselves or by their limit."""
    torch.manual_seed(seed)
    shape = {"d_model": 24, "num_heads": 1, "d_ff": 40, "encoder_layers": 1, "decoder_layers": 1, "output_bias": True}
    model = Transformer(ModelConfig(VOCABULARY, VOCABULARY, **{**shape, **fields})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.output.weight.mul_(0.5)
        model.output.bias[model.config.eos_id] += 1.8
    return model.to(device, dtype)


def backends(seed: int, dtype: torch.dtype, device: str, **fields: Any) -> tuple[TritonBackend, TorchBackend]:
    other = TorchBackend(model_of(seed, dtype, device, **fields), tiled=device != "cpu" or dtype == torch.float32)
    return TritonBackend(other), other


def short_rounds(backend: TritonBackend, rows: int) -> TritonBatch:
    """A batch that looks for what has ended after every third step: the targets here are no longer than a usual round,
    and Triton's interpreter is slow."""
    return TritonBatch(backend._network, backend._other, rows, LIMITS, steps=3)


def sources(count: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(4, VOCABULARY) for _ in range(draw.randint(0, LIMITS.max_source))] for _ in range(count)]


def hypotheses(count: int, seed: int) -> list[Hypothesis]:
    return [Hypothesis(ids, LIMITS.target(len(ids)), source_prefix_length=len(ids) > 3) for ids in sources(count, seed)]


def decode(batch: Batch, waiting: Sequence[Hypothesis], draw: random.Random) -> None:
    """Decodes hypotheses, which join a few at a time, in random order."""
    left = list(waiting)
    draw.shuffle(left)
    while left or batch.running:
        count = min(batch.free, len(left), draw.randint(0, 3))
        if count:
            batch.admit([left.pop() for _ in range(count)])
        if batch.running:
            batch.step()


def answers(found: Sequence[Hypothesis]) -> list[Answer]:
    return [(h.tokens, h.log_probs, list(h.aligned), list(h.coverage), h.finish_reason) for h in found]


def assert_close(ours: Sequence[Hypothesis], theirs: Sequence[Hypothesis], tolerance: float) -> None:
    """Compares all results: tokens, alignments and reasons exactly."""
    for one, other in zip(answers(ours), answers(theirs), strict=True):
        assert (one[0], one[2], one[4]) == (other[0], other[2], other[4])
        for left, right in ((one[1], other[1]), (one[3], other[3])):
            assert len(left) == len(right)
            assert all(abs(a - b) <= tolerance for a, b in zip(left, right, strict=True))


def check_sentences_come_out_as_of_decode_batch(device: str, seed: int) -> None:
    """Token for token, for each placement of the norms, and each kind of embedding, alignment and length of a round."""
    variants: tuple[dict[str, Any], ...] = (
        {"norm": "pre", "num_heads": 2, "decoder_layers": 2, "alignment_layer": 1, "alignment_head": 0},
        {"norm": "pre", "num_heads": 2, "decoder_layers": 2, "alignment_size": 16},
        {"norm": "post", "positions": "learned", "zero_start": True, "activation": "swish"},
        {"norm": "residual_post", "share_embeddings": "none", "attention_bias": False, "source_eos": False},
        {"norm": "residual_post", "source_eos": False, "alignment_size": 8},
        {"norm": "post", "final_norm": True, "positions": "marian"},
        {"norm": "post", "decoder": "ssru", "zero_start": True},
    )
    draw, reasons = random.Random(seed), set()
    for number, fields in enumerate(variants):
        triton, other = backends(seed + number, torch.float32, device, **fields)
        ours, theirs = hypotheses(4, seed + number), hypotheses(4, seed + number)
        decode(TritonBatch(triton._network, other, 3, LIMITS, steps=draw.choice([1, 3, 4])), ours, draw)
        decode(other.new_batch(3, LIMITS), theirs, draw)
        assert_close(ours, theirs, 2e-4)
        reasons |= {h.finish_reason for h in ours}
    assert reasons == {"stop", "length"}, "the models of this seed say nothing of one of them"


def check_no_bit_depends_on_the_batch(device: str, seed: int) -> None:
    """In half precision, alone in a batch of one row, and among others in a larger one, in other rows and other places
    of the packed encoder."""
    triton, _ = backends(seed, torch.float16, device)
    alone, together = hypotheses(6, seed), hypotheses(6, seed)
    for hypothesis in alone[:3]:
        decode(short_rounds(triton, 1), [hypothesis], random.Random(seed))
    network.MAX_ENCODED_TOKENS, before = 12, network.MAX_ENCODED_TOKENS  # sentences that join together, in groups
    decode(short_rounds(triton, 18), together, random.Random(seed + 1))
    network.MAX_ENCODED_TOKENS = before
    assert answers(alone[:3]) == answers(together[:3])


def check_poisoned_sentence_harms_no_other(device: str, seed: int) -> None:
    """A token whose embedding is NaN ends its own sentence with NaN, and no other, beside it or in its row later."""
    triton, _ = backends(seed, torch.float32, device, share_embeddings="none")
    healthy = hypotheses(3, seed)
    for h in healthy:
        h.source = [9 if token == 7 else token for token in h.source]
    expected = [h.without_result() for h in healthy]
    decode(short_rounds(triton, 2), expected, random.Random(seed))
    with torch.no_grad():
        triton._network.model.source_embedding.tokens.weight[7] = math.nan
    ill = [Hypothesis([5, 7, 6], 4) for _ in range(2)]
    decode(short_rounds(triton, 2), [*healthy, *ill], random.Random(seed))
    assert answers(healthy) == answers(expected)
    for h in ill:
        assert h.finish_reason == "length"
        assert len(h.log_probs) == 1
        assert math.isnan(h.log_probs[0])


def check_others_take_the_other_backend(device: str, seed: int) -> None:
    """Beams, constraints, forced targets and records come out as of a batch of their own, beside plain sentences."""
    triton, other = backends(seed, torch.float32, device)

    def drawn() -> list[Hypothesis]:
        given = (
            Hypothesis([5, 6, 7], 7, beam_size=2),
            Hypothesis([5, 6], 6, required=[11]),
            Hypothesis([8, 9], 5, [4, 5]),
        )
        more = Hypothesis([5], 4, record=True), Hypothesis([9, 8], 6, prefix=[12]), Hypothesis([9], 5, forbidden=[5])
        return [*given, *more, *hypotheses(2, seed)]

    ours, theirs, removed = drawn(), drawn(), Hypothesis([5, 6], 6, forbidden=[7])
    draw = random.Random(seed)
    batch_module.MAX_OTHER_ROWS, before = 2, batch_module.MAX_OTHER_ROWS  # so that most of them wait
    batch = short_rounds(triton, 12)
    batch.admit([*ours[:4], removed, *ours[4:]])
    assert batch.free == 12 - 10
    assert len(batch.running) == 9
    batch.remove([removed])
    assert batch.free == 12 - 9
    finished = []
    while batch.running:
        finished += batch.step()
    batch_module.MAX_OTHER_ROWS = before
    assert set(map(id, finished)) == set(map(id, ours))
    assert (removed.tokens, batch.free) == ([], 12)
    for hypothesis in theirs:
        decode(other.new_batch(2, LIMITS), [hypothesis], draw)
    for one, two in zip(ours, theirs, strict=True):
        assert_close(one.finished or [one], two.finished or [two], 2e-4)
    assert ours[3].encoder_attention is not None


def check_removed_sentence_leaves_its_row_to_another(device: str, seed: int) -> None:
    """Also while a round runs in which it ended: the flags of that round say nothing of the next sentence there."""
    triton, _ = backends(seed, torch.float32, device)
    [expected] = hypotheses(1, seed)
    decode(short_rounds(triton, 1), [expected], random.Random(seed))
    batch = PlainBatch(triton._network, 1, LIMITS, steps=LIMITS.max_target)
    for hypothesis in hypotheses(2, seed + 1):
        batch.admit([hypothesis])
        batch.step()  # launches the round in which the sentence ends
        assert batch.running == [hypothesis]
        assert batch.remove([hypothesis]) == [hypothesis]
        assert (batch.free, batch.running, hypothesis.tokens) == (1, [], [])
        [mine] = hypotheses(1, seed)
        batch.admit([mine])
        while batch.running:
            batch.step()
        assert answers([mine]) == answers([expected])


def check_source_that_is_too_long_takes_no_row(device: str, seed: int) -> None:
    triton, _ = backends(seed, torch.float32, device, max_positions=10)
    batch = short_rounds(triton, 3)
    for _ in range(2):
        try:
            batch.admit([Hypothesis([5], 4), Hypothesis([5] * 10, 4)])
        except ValueError:
            assert batch.free == 3
        else:
            raise AssertionError("11 tokens were accepted by a model with 10 positions")
    check = Hypothesis([5], 2)
    decode(batch, [check], random.Random(seed))
    assert check.finish_reason


def check_self_test_decides_which_engine_serves(device: str, seed: int) -> None:
    triton, other = backends(seed, torch.float32, device)
    assert triton.failure(LIMITS) is None
    assert isinstance(with_triton(other, LIMITS), TritonBackend)
    wide = TorchBackend(model_of(seed, torch.float32, device, d_model=130))
    assert with_triton(wide, LIMITS) is wide
    attention = triton._network._decoder[0].cross_attention
    attention.query_key_value.bias = torch.nn.Parameter(attention.query_key_value.bias + 3)
    expected, triton._other = triton._other, TorchBackend(model_of(seed, torch.float32, device))
    assert expected is not triton._other
    assert "are not PyTorch's" in str(triton.failure(LIMITS))


def check_a_replayed_graph_gives_the_bits_of_its_kernels(device: str, seed: int) -> None:
    """On a GPU: a batch that has run long enough replays graphs."""
    triton, _ = backends(seed, torch.float16, device)
    batch = PlainBatch(triton._network, 70, LIMITS)
    expected = hypotheses(60, seed)
    for _ in range(2 + UNCAPTURED_STEPS // STEPS):
        found = hypotheses(60, seed)
        batch.admit(found)
        while batch.running:
            batch.step()
        if not expected[0].tokens:
            expected = found
        assert answers(found) == answers(expected)
    assert device == "cpu" or batch._graphs._graphs


CHECKS = (
    check_sentences_come_out_as_of_decode_batch,
    check_no_bit_depends_on_the_batch,
    check_poisoned_sentence_harms_no_other,
    check_others_take_the_other_backend,
    check_removed_sentence_leaves_its_row_to_another,
    check_source_that_is_too_long_takes_no_row,
    check_self_test_decides_which_engine_serves,
)
ON_A_GPU = (*CHECKS, check_a_replayed_graph_gives_the_bits_of_its_kernels)
