"""The training criterion: label-smoothed cross entropy, computed with the vocabulary projection it follows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_LOGITS = 1 << 21
"""Logits held at once. More would spill out of the processor's caches; on a GPU it bounds the memory."""
GPU_CHUNK_LOGITS = 1 << 29


def projected_loss(hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The cross entropy of softmax(hidden weight^T) against smoothed targets, summed over tokens; also unsmoothed.

    hidden [tokens, d_model], weight [vocabulary, d_model], targets [tokens]. The target distribution is
    (1 - smoothing) on the target and smoothing / vocabulary on every token (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4), as in `torch.nn.functional.cross_entropy`. Returns two scalars in nats: the
    loss to differentiate, and the plain negative log likelihood, for reports, which carries no gradient.

    The logits are never held whole: they would be the largest tensor of a step by far, and on a CPU moving them
    costs more than computing them. Each chunk's gradient is formed while the chunk is at hand.
    """
    loss, nll = _ProjectedLoss.apply(hidden, weight, targets, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        vocabulary = weight.size(0)
        chunk = max(1, (CHUNK_LOGITS if hidden.device.type == "cpu" else GPU_CHUNK_LOGITS) // vocabulary)
        wanted = any(ctx.needs_input_grad[:2])
        operand = weight.to(hidden.dtype)
        grad_hidden = torch.empty_like(hidden) if wanted else None
        grad_weight = torch.zeros_like(weight) if wanted else None
        loss = hidden.new_zeros((), dtype=torch.float32)
        nll = hidden.new_zeros((), dtype=torch.float32)
        for start in range(0, hidden.size(0), chunk):
            part, target = hidden[start : start + chunk], targets[start : start + chunk, None]
            log_probs = torch.log_softmax((part @ operand.t()).float(), dim=-1)  # [chunk, vocabulary]
            chosen = log_probs.gather(-1, target).sum()
            nll -= chosen
            loss -= (1 - smoothing) * chosen
            if smoothing:
                loss -= log_probs.sum() * (smoothing / vocabulary)
            if grad_hidden is None or grad_weight is None:
                continue
            # d loss / d logits = softmax - target distribution
            grad_logits = log_probs.exp_()
            if smoothing:
                grad_logits -= smoothing / vocabulary
            grad_logits.scatter_add_(-1, target, grad_logits.new_full(target.shape, smoothing - 1))
            grad = grad_logits.to(hidden.dtype)
            torch.mm(grad, operand, out=grad_hidden[start : start + chunk])
            if grad.dtype == weight.dtype:
                grad_weight.addmm_(grad.t(), part)
            else:
                grad_weight += grad.t() @ part
        if wanted:
            ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * gradients[0].to(grad_hidden.dtype), grad_weight * gradients[0], None, None
