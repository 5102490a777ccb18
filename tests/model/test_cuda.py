"""model/ and training/optim/: what must hold on a GPU as on the processor; skipped without a GPU.

On a borrowed machine, python -m pytest --noconftest tests/model/test_cuda.py suffices: nothing here needs the service,
which
tests/conftest.py imports. All of it is to take under a minute there, Triton's compilations included.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch

from model.backends import prepare
from model.config import named_architecture
from model.decoding import greedy_decode
from model.hypothesis import Hypothesis, Limits
from model.transformer import Transformer
from training.data.batches import Pairs, Position, batches_from
from training.optim.loss import Projection, kernel_works, projected_loss
from training.optim.trainer import Recipe, Trainer

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
    pytest.mark.filterwarnings("default"),  # what PyTorch, Triton and CUDA warn each other of is not ours to mend
]
VOCABULARY = 60
Check = Callable[[str, int], None]
KERNEL_CHECKS: Sequence[Check] = ()
ON_A_GPU: Sequence[Check] = ()
if torch.cuda.is_available():  # with it comes Triton
    from triton_batch_checks import ON_A_GPU
    from triton_kernel_checks import CHECKS as KERNEL_CHECKS


def sentences(count: int) -> list[list[int]]:
    chooser = random.Random(5)
    return [[chooser.randrange(4, VOCABULARY) for _ in range(chooser.randint(1, 20))] for _ in range(count)]


def test_greedy_decoding_in_float32_gives_the_cpus_tokens() -> None:
    torch.manual_seed(0)
    model = Transformer(named_architecture("toy", source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)).eval()
    limits = Limits(max_source=32, max_target=32)
    on_cpu = greedy_decode(model, sentences(40), limits, rows=16)
    on_gpu = greedy_decode(model.to("cuda"), sentences(40), limits, rows=16)
    assert [h.tokens for h in on_gpu] == [h.tokens for h in on_cpu]
    for ours, theirs in zip(on_gpu, on_cpu, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_decoding_does_not_depend_on_the_batch_in_any_bit(precision: str) -> None:
    """Each sentence is encoded alone here: on a GPU the encoder's products are as high as its sentences together."""
    torch.manual_seed(0)
    model = Transformer(named_architecture("toy", source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)).eval()
    limits = Limits(max_source=32, max_target=32)
    batch = prepare(model.to("cuda"), precision).new_batch(16, limits)  # its graph serves all that follow
    alone, together = ([Hypothesis(ids, limits.target(len(ids))) for ids in sentences(40)] for _ in range(2))
    for hypothesis in alone:
        batch.admit([hypothesis])
        while batch.running:
            batch.step()
    waiting = list(together)
    while waiting or batch.running:
        while waiting and batch.free:
            batch.admit([waiting.pop()])
        batch.step()
    assert [(h.tokens, h.log_probs) for h in together] == [(h.tokens, h.log_probs) for h in alone]


def test_non_finite_gradient_changes_no_weight_and_shows_in_the_loss() -> None:
    config = named_architecture("toy", source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)
    trainer = Trainer(config, Recipe(steps=10, warmup=10), torch.device("cuda"))
    batches = batches_from(Pairs.of(sentences(60), sentences(60)), config, 400, 1, Position())
    assert trainer.step([next(batches)], 1e-3).isfinite()
    weight = trainer.model.output.weight
    kept = weight[7, 3].item()
    with torch.no_grad():
        weight[7, 3] = torch.nan
    before = [parameter.clone() for parameter in trainer.model.parameters()]
    assert trainer.step([next(batches)], 1e-3).isnan()
    for parameter, old in zip(trainer.model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter, old, rtol=0, atol=0, equal_nan=True)
    with torch.no_grad():
        weight[7, 3] = kept
    assert trainer.step([next(batches)], 1e-3).isfinite()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_by_the_triton_kernel_is_pytorchs(smoothing: float) -> None:
    device = torch.device("cuda")
    assert kernel_works(device)
    torch.manual_seed(1)
    hidden = torch.randn(500, 64, device=device).bfloat16().requires_grad_()
    weight = torch.randn(16_001, 64, device=device).div(8).requires_grad_()
    targets = torch.randint(16_001, (500,), device=device)
    found = []
    for fused in (True, False):
        loss, nll = projected_loss(hidden, Projection(weight), targets, smoothing, fused=fused)
        found.append((loss, nll, *torch.autograd.grad(loss, [hidden, weight])))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.float(), theirs.float(), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("check", KERNEL_CHECKS)
def test_triton_kernel_computes_what_pytorch_does_in_float64(check: Check) -> None:
    for seed in range(2):  # each draws shapes that Triton compiles for
        check("cuda", seed)


@pytest.mark.parametrize("check", ON_A_GPU)
def test_batch_of_the_triton_engine(check: Check) -> None:
    check("cuda", 1)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.05)])
def test_training_without_dropout_has_the_cpus_loss(precision: str, tolerance: float) -> None:
    config = named_architecture("toy", source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY, dropout=0.0)
    pairs = Pairs.of(sentences(60), sentences(60))
    losses = {}
    for device, chosen in (("cpu", "float32"), ("cuda", precision)):
        trainer = Trainer(config, Recipe(steps=10, warmup=10, precision=chosen), torch.device(device))
        batches = batches_from(pairs, config, 400, 1, Position())
        losses[device] = [trainer.step([next(batches)], 1e-3).item() for _ in range(10)]
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=tolerance)
