"""The chunked loss against PyTorch's own, in value and in both gradients."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from training import loss as loss_module
from training.loss import projected_loss


def operands(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    hidden = torch.randn(37, 12, generator=random).to(dtype).requires_grad_()
    weight = torch.randn(50, 12, generator=random).requires_grad_()
    return hidden, weight, torch.randint(50, (37,), generator=random)


def reference(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(hidden @ weight.t(), targets, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("chunk_tokens", [1, 5, 37, 1000])
def test_the_loss_and_its_gradients_are_pytorchs_whatever_the_chunk(
    monkeypatch: pytest.MonkeyPatch, chunk_tokens: int, smoothing: float
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_LOGITS", chunk_tokens * 50)
    hidden, weight, targets = operands()
    expected = reference(hidden, weight, targets, smoothing)
    expected_gradients = torch.autograd.grad(expected * 0.25, [hidden, weight])
    loss, nll = projected_loss(hidden, weight, targets, smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, reference(hidden, weight, targets, 0.0))
    assert not nll.requires_grad
    for found, wanted in zip(torch.autograd.grad(loss * 0.25, [hidden, weight]), expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted)


def test_bfloat16_comes_near_and_the_weights_gradient_stays_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_LOGITS", 10 * 50)
    hidden, weight, targets = operands(torch.bfloat16)
    loss, _ = projected_loss(hidden, weight, targets, 0.1)
    expected = reference(hidden.float(), weight, targets, 0.1)
    torch.testing.assert_close(loss, expected, rtol=0.01, atol=0.0)
    found, wanted = (torch.autograd.grad(value, [hidden, weight]) for value in (loss, expected))
    assert [gradient.dtype for gradient in found] == [torch.bfloat16, torch.float32]
    for ours, theirs in zip(found, wanted, strict=True):
        assert F.cosine_similarity(ours.float().flatten(), theirs.float().flatten(), dim=0) > 0.999


def test_without_gradients_the_value_is_the_same() -> None:
    hidden, weight, targets = operands()
    with torch.no_grad():
        loss, _ = projected_loss(hidden, weight, targets, 0.1)
    torch.testing.assert_close(loss, reference(hidden, weight, targets, 0.1).detach())
