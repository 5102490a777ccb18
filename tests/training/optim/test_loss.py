"""The chunked losses against PyTorch's own, in value and in both gradients."""

import importlib.util
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from training.optim import loss as loss_module
from training.optim.loss import (
    EXCLUDED_BIAS,
    Projection,
    distillation_loss,
    projected_loss,
    r_drop_loss,
    sampled_loss,
)

pytestmark = pytest.mark.slow


def operands(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    hidden = torch.randn(37, 12, generator=random).to(dtype).requires_grad_()
    weight = torch.randn(50, 12, generator=random).requires_grad_()
    return hidden, weight, torch.randint(50, (37,), generator=random)


def reference(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(hidden @ weight.t(), targets, label_smoothing=smoothing, reduction="sum")


def assert_close_with_gradients(loss: Tensor, expected: Tensor, by: list[Tensor]) -> tuple[Tensor, ...]:
    """Returns a quarter of the gradients of `loss`."""
    torch.testing.assert_close(loss, expected)
    found, wanted = (torch.autograd.grad(value * 0.25, by) for value in (loss, expected))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
    return found


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("chunk_tokens", [1, 5, 37, 1000])
def test_loss_and_gradients_equal_pytorchs_for_any_chunk_size(chunk_tokens: int, smoothing: float) -> None:
    hidden, weight, targets = operands()
    loss, nll = projected_loss(hidden, Projection(weight), targets, smoothing, chunk_logits=chunk_tokens * 50)
    assert_close_with_gradients(loss, reference(hidden, weight, targets, smoothing), [hidden, weight])
    torch.testing.assert_close(nll, reference(hidden, weight, targets, 0.0))
    assert not nll.requires_grad


def test_bfloat16_loss_is_close_and_the_weights_gradient_stays_float32() -> None:
    hidden, weight, targets = operands(torch.bfloat16)
    loss, _ = projected_loss(hidden, Projection(weight), targets, 0.1, chunk_logits=10 * 50)
    expected = reference(hidden.float(), weight, targets, 0.1)
    torch.testing.assert_close(loss, expected, rtol=0.01, atol=0.0)
    found, wanted = (torch.autograd.grad(value, [hidden, weight]) for value in (loss, expected))
    assert [gradient.dtype for gradient in found] == [torch.bfloat16, torch.float32]
    for ours, theirs in zip(found, wanted, strict=True):
        assert F.cosine_similarity(ours.float().flatten(), theirs.float().flatten(), dim=0) > 0.999


def test_without_gradients_the_value_is_equal_and_no_gradient_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def computed(*_: Tensor) -> None:
        pytest.fail("a gradient was computed")

    monkeypatch.setattr(loss_module, "_add_product", computed)
    hidden, weight, targets = operands()
    with torch.no_grad():
        loss, _ = projected_loss(hidden, Projection(weight), targets, 0.1)
    torch.testing.assert_close(loss, reference(hidden, weight, targets, 0.1).detach())


def without_compiler(*_: Any) -> Any:
    raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nand more")


def wrong(logits: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.zeros(len(logits)), torch.zeros(len(logits))


@pytest.mark.parametrize(
    ("kernel", "reason"), [(without_compiler, "Failed to find C compiler"), (wrong, "its result is not PyTorch's")]
)
def test_kernel_that_fails_or_errs_is_not_used_and_the_reason_given(
    kernel: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = SimpleNamespace(cross_entropy_=kernel)
    monkeypatch.setitem(sys.modules, "training.optim.triton_cross_entropy", module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: module)
    with pytest.warns(UserWarning, match=reason):
        assert not loss_module.kernel_works.__wrapped__(torch.device("cpu"))


def test_without_triton_pytorchs_way_is_taken_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not loss_module.kernel_works.__wrapped__(torch.device("cpu"))


# ---- R-Drop


def passes(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(4)
    hidden = torch.randn(2, 37, 12, generator=random).to(dtype).requires_grad_()
    weight = torch.randn(50, 12, generator=random).to(torch.promote_types(dtype, torch.float32)).requires_grad_()
    return hidden, weight, torch.randint(50, (37,), generator=random)


def r_drop_reference(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, alpha: float) -> Tensor:
    """Half of equation 4 of Wu et al. 2021."""
    first, second = (torch.log_softmax(each @ weight.t(), dim=-1) for each in hidden)
    entropy = F.cross_entropy(
        (hidden @ weight.t()).flatten(0, 1), targets.repeat(2), label_smoothing=smoothing, reduction="sum"
    )
    divergences = [
        F.kl_div(q, p, log_target=True, reduction="sum")
        for p, q in ((first, second), (second, first))  # KL(p || q)
    ]
    return (entropy + alpha * (divergences[0] + divergences[1]) / 2) / 2


@pytest.mark.parametrize("alpha", [0.5, 5.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk_tokens", [1, 5, 37, 1000])
def test_r_drop_and_its_gradients_equal_those_of_autograd(chunk_tokens: int, smoothing: float, alpha: float) -> None:
    hidden, weight, targets = passes()
    expected = r_drop_reference(hidden, weight, targets, smoothing, alpha)
    expected_gradients = torch.autograd.grad(expected * 0.25, [hidden, weight])
    loss, nll = r_drop_loss(hidden, Projection(weight), targets, smoothing, alpha, chunk_logits=chunk_tokens * 100)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, r_drop_reference(hidden, weight, targets, 0.0, 0.0))
    assert not nll.requires_grad
    for found, wanted in zip(torch.autograd.grad(loss * 0.25, [hidden, weight]), expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 0.01)])
def test_r_drop_in_lower_precision_is_close(dtype: torch.dtype, near: float) -> None:
    hidden, weight, targets = passes(dtype)
    loss, _ = r_drop_loss(hidden, Projection(weight), targets, 0.1, 5.0)
    expected = r_drop_reference(hidden.float(), weight, targets, 0.1, 5.0)
    torch.testing.assert_close(loss, expected, rtol=near, atol=0.0)
    found, wanted = (torch.autograd.grad(value, [hidden, weight]) for value in (loss, expected))
    assert [gradient.dtype for gradient in found] == [dtype, torch.float32]
    for ours, theirs in zip(found, wanted, strict=True):
        assert F.cosine_similarity(ours.float().flatten(), theirs.float().flatten(), dim=0) > 1 - near


def test_r_drop_of_two_equal_passes_is_the_loss_of_one() -> None:
    hidden, weight, targets = operands()
    expected, expected_nll = projected_loss(hidden, Projection(weight), targets, 0.1)
    loss, nll = r_drop_loss(torch.stack([hidden, hidden]), Projection(weight), targets, 0.1, 5.0)
    torch.testing.assert_close((loss, nll), (expected, expected_nll))
    for found, wanted in zip(*(torch.autograd.grad(each, [hidden, weight]) for each in (loss, expected)), strict=True):
        torch.testing.assert_close(found, wanted)


def test_r_drop_of_no_tokens_is_zero() -> None:
    hidden, weight, targets = passes()
    loss, _ = r_drop_loss(hidden[:, :0], Projection(weight), targets[:0], 0.1, 5.0)
    assert loss == 0
    assert torch.autograd.grad(loss, weight)[0].count_nonzero() == 0


# ---- Distillation


def teacher_s() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    return torch.randn(37, 12, generator=random), torch.randn(50, 12, generator=random)


def distillation_reference(hidden: Tensor, weight: Tensor, taught: Tensor, teacher: Tensor) -> Tensor:
    return F.cross_entropy(hidden @ weight.t(), (taught @ teacher.t()).softmax(-1), reduction="sum")


@pytest.mark.parametrize("chunk_tokens", [1, 5, 37, 1000])
def test_distillation_loss_is_pytorchs_cross_entropy_with_the_teachers_probabilities(chunk_tokens: int) -> None:
    hidden, weight, targets = operands()
    taught, teacher = teacher_s()
    chunk = 2 * chunk_tokens * 50
    how = hidden, Projection(weight), taught, Projection(teacher)
    loss, nll = distillation_loss(*how, targets, chunk_logits=chunk)
    assert_close_with_gradients(loss, distillation_reference(hidden, weight, taught, teacher), [hidden, weight])
    torch.testing.assert_close(nll, reference(hidden, weight, targets, 0.0))
    assert not nll.requires_grad


def test_predictions_equal_to_the_teachers_have_no_gradient() -> None:
    hidden, weight, targets = operands()
    loss, _ = distillation_loss(hidden, Projection(weight), hidden.detach(), Projection(weight.detach()), targets)
    for gradient in torch.autograd.grad(loss, [hidden, weight]):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-5, rtol=0)


def test_distillation_in_bfloat16_is_close() -> None:
    hidden, weight, targets = operands(torch.bfloat16)
    taught, teacher = teacher_s()
    how = hidden, Projection(weight), taught.bfloat16(), Projection(teacher)
    loss, _ = distillation_loss(*how, targets, chunk_logits=10 * 50)
    expected = distillation_reference(hidden.float(), weight, taught, teacher)
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.0)
    found, wanted = (torch.autograd.grad(value, [hidden, weight]) for value in (loss, expected))
    assert [gradient.dtype for gradient in found] == [torch.bfloat16, torch.float32]
    for ours, theirs in zip(found, wanted, strict=True):
        assert F.cosine_similarity(ours.float().flatten(), theirs.float().flatten(), dim=0) > 0.99


# ---- An output bias


def with_bias() -> tuple[Tensor, Projection, Tensor]:
    hidden, weight, targets = (tensor.double() if tensor.is_floating_point() else tensor for tensor in operands())
    hidden, weight = (tensor.detach().requires_grad_() for tensor in (hidden, weight))
    bias = torch.randn(50, generator=torch.Generator().manual_seed(6)).double().requires_grad_()
    return hidden, Projection(weight, bias), targets


def assert_close_with_all_gradients(
    loss: Tensor, expected: Tensor, hidden: Tensor, output: Projection
) -> tuple[Tensor, ...]:
    assert output.bias is not None
    return assert_close_with_gradients(loss, expected, [hidden, output.weight, output.bias])


@pytest.mark.parametrize("chunk_tokens", [1, 5, 1000])
def test_the_gradients_of_a_biased_projection_equal_pytorchs(chunk_tokens: int) -> None:
    hidden, output, targets = with_bias()
    loss, _ = projected_loss(hidden, output, targets, 0.1, chunk_logits=chunk_tokens * 50)
    logits = F.linear(hidden, *output)
    expected = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum")
    assert_close_with_all_gradients(loss, expected, hidden, output)


def test_r_drop_of_two_equal_passes_through_a_biased_projection_is_the_loss_of_one() -> None:
    hidden, output, targets = with_bias()
    expected, _ = projected_loss(hidden, output, targets, 0.1)
    loss, _ = r_drop_loss(torch.stack([hidden, hidden]), output, targets, 0.1, 5.0)
    assert_close_with_all_gradients(loss, expected, hidden, output)


def test_distillation_from_a_biased_teacher_equals_pytorchs() -> None:
    hidden, output, targets = with_bias()
    taught, weight = (tensor.double() for tensor in teacher_s())
    teacher = Projection(weight, torch.linspace(-2, 2, 50).double())
    loss, _ = distillation_loss(hidden, output, taught, teacher, targets)
    expected = F.cross_entropy(F.linear(hidden, *output), F.linear(taught, *teacher).softmax(-1), reduction="sum")
    assert_close_with_all_gradients(loss, expected, hidden, output)


@pytest.mark.parametrize("r_drop", [False, True])
def test_a_token_excluded_by_its_bias_is_not_smoothed_and_stays_excluded(r_drop: bool) -> None:
    hidden, output, targets = with_bias()
    assert output.bias is not None
    excluded, others = 7, [token for token in range(50) if token != 7]
    targets[targets == excluded] = 8
    with torch.no_grad():
        output.bias[excluded] = 2 * EXCLUDED_BIAS
    if r_drop:
        loss, _ = r_drop_loss(torch.stack([hidden, hidden]), output, targets, 0.1, 5.0)
    else:
        loss, _ = projected_loss(hidden, output, targets, 0.1)
    log_probs = F.linear(hidden, *output).log_softmax(-1)
    expected = 0.9 * F.nll_loss(log_probs, targets, reduction="sum") - 0.1 / 49 * log_probs[:, others].sum()
    _, *gradients = assert_close_with_all_gradients(loss, expected, hidden, output)
    assert all(by[excluded].abs().max() < 1e-30 for by in gradients)


# ---- A sampled softmax


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
def test_sample_of_all_tokens_gives_the_whole_loss_and_its_gradients(biased: bool, smoothing: float) -> None:
    hidden, output, targets = with_bias()
    assert output.bias is not None
    with torch.no_grad():
        output.bias[next(token for token in range(50) if token not in targets)] = 2 * EXCLUDED_BIAS
    output = output if biased else Projection(output.weight)
    by = [hidden, *(each for each in output if each is not None)]
    expected, expected_nll = projected_loss(hidden, output, targets, smoothing)
    loss, nll = sampled_loss(hidden, output, targets, smoothing, samples=50)
    assert_close_with_gradients(loss, expected, by)
    torch.testing.assert_close(nll, expected_nll)
    assert not nll.requires_grad


@pytest.mark.parametrize("smoothing", [0.0, 0.4])
def test_sampled_normalisation_and_smoothing_are_right_on_average(smoothing: float) -> None:
    hidden, output, _ = with_bias()
    hidden, output = hidden.detach()[:1] / 4, Projection(*(each.detach() for each in output if each is not None))
    targets = torch.tensor([3])
    logits = F.linear(hidden, *output)[0]
    torch.manual_seed(1)
    normalisers, smoothed = [], []
    for _ in range(4000):
        loss, nll = sampled_loss(hidden, output, targets, smoothing, samples=7)
        log_normaliser = nll + logits[3]
        normalisers.append(log_normaliser.exp())
        # loss = log Z - (1 - smoothing) * logit - smoothing * mean of the logits
        smoothed.append(log_normaliser - (1 - smoothing) * logits[3] - loss)
    torch.testing.assert_close(torch.stack(normalisers).mean(), logits.exp().sum(), rtol=0.03, atol=0)
    torch.testing.assert_close(torch.stack(smoothed).mean(), smoothing * logits.mean(), rtol=0, atol=0.02)


def test_gradient_of_a_sample_is_near_the_whole_one_and_only_of_its_tokens() -> None:
    hidden, weight, targets = operands()
    targets %= 20
    hidden = (hidden.detach() + weight.detach()[targets]).div_(4).requires_grad_()  # as after some training
    whole = torch.autograd.grad(projected_loss(hidden, Projection(weight), targets, 0.1)[0], [hidden, weight])
    sums = [torch.zeros_like(gradient) for gradient in whole]
    for seed in range(200):
        torch.manual_seed(seed)
        loss, _ = sampled_loss(hidden, Projection(weight), targets, 0.1, samples=10)
        gradients = torch.autograd.grad(loss, [hidden, weight])
        assert int(gradients[1].any(-1).sum()) <= len({*targets.tolist()}) + 10
        for total, gradient in zip(sums, gradients, strict=True):
            total += gradient / 200
    for found, wanted in zip(sums, whole, strict=True):
        assert F.cosine_similarity(found.flatten(), wanted.flatten(), dim=0) > 0.99
        torch.testing.assert_close(found.norm(), wanted.norm(), rtol=0.1, atol=0)


def test_batch_whose_targets_are_the_whole_vocabulary_leaves_nothing_to_sample() -> None:
    hidden, weight, _ = operands()
    hidden, targets = hidden.repeat(2, 1)[:50], torch.arange(50)
    expected, _ = projected_loss(hidden, Projection(weight), targets, 0.1)
    assert_close_with_gradients(sampled_loss(hidden, Projection(weight), targets, 0.1, 5)[0], expected, [weight])


def test_samples_differ_from_draw_to_draw_and_repeat_with_the_seed() -> None:
    hidden, weight, targets = operands()
    losses = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        losses.append(sampled_loss(hidden, Projection(weight), targets % 9, 0.1, samples=5)[0].item())
    assert losses[0] == losses[2] != losses[1]
