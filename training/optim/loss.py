"""Training criteria, fused with the vocabulary projection: label-smoothed cross entropy, R-Drop, knowledge
distillation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK_LOGITS = 1 << 21
"""Logits held at once. More would not fit in the processor's caches; on a GPU it bounds the memory."""
GPU_CHUNK_LOGITS = 1 << 29


def projected_loss(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0, *, chunk_logits: int | None = None
) -> tuple[Tensor, Tensor]:
    """The cross entropy of softmax(hidden weight^T) against smoothed targets, summed over tokens; also unsmoothed.

    hidden [tokens, d_model], weight [vocabulary, d_model], targets [tokens]. The target distribution is
    (1 - smoothing) on the target and smoothing / vocabulary on every token (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4), as in `torch.nn.functional.cross_entropy`. Returns two scalars in nats: the
    loss to differentiate, and the plain negative log likelihood, for reports, which carries no gradient.

    The logits are never held whole: they would be the largest tensor of a step by far, and on a CPU moving them
    costs more than computing them. Each chunk's gradient is formed while the chunk is at hand. `chunk_logits`: the most
    held at once; None is CHUNK_LOGITS, or GPU_CHUNK_LOGITS.
    """
    if (
        not torch.is_grad_enabled()
    ):  # within a Function that cannot be asked, and the weights would have a gradient made
        hidden, weight = hidden.detach(), weight.detach()
    loss, nll = _ProjectedLoss.apply(hidden, weight, targets, smoothing, chunk_logits)  # type: ignore[no-untyped-call]
    return loss, nll


def r_drop_loss(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    smoothing: float,
    alpha: float,
    *,
    chunk_logits: int | None = None,
) -> tuple[Tensor, Tensor]:
    """R-Drop (Wu et al. 2021, section 2, equations 2 to 4): two passes must predict the targets, and the same.

    hidden [2, tokens, d_model], the passes; weight [vocabulary, d_model]; targets [tokens]. With the cross entropies C
    of `projected_loss` and the passes' distributions P and Q, it is

        (C(P) + C(Q)) / 2 + alpha / 4 (KL(P || Q) + KL(Q || P)), summed over tokens:

    half of equation 4, so that alpha is the paper's (5 for translation) and the scale that of one pass. Takes and
    returns what `projected_loss` does, the negative log likelihood being the mean of the passes'.
    """
    loss, nll = _RDropLoss.apply(hidden, weight, targets, smoothing, alpha, chunk_logits)  # type: ignore[no-untyped-call]
    return loss, nll


def distillation_loss(
    hidden: Tensor,
    weight: Tensor,
    taught: Tensor,
    teacher: Tensor,
    targets: Tensor,
    *,
    chunk_logits: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Word-level knowledge distillation (Hinton et al. 2015; Kim & Rush 2016, section 3.1): the cross entropy of
    softmax(hidden weight^T) against the teacher's softmax(taught teacher^T), summed over tokens.

    hidden and taught [tokens, d_model], weight and teacher [vocabulary, d_model], targets [tokens]. The teacher gets no
    gradient. Returns what `projected_loss` does; only the second scalar depends on `targets`. The first is at least the
    teacher's entropy.
    """
    loss, nll = _DistillationLoss.apply(hidden, weight, taught, teacher, targets, chunk_logits)  # type: ignore[no-untyped-call]
    return loss, nll


class _ProjectedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, chunk_logits: int | None
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.size(0)
        chunk = _tokens_at_once(hidden, vocabulary, chunk_logits)
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
            _add_product(grad_weight, grad, part)
        if wanted:
            ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * gradients[0].to(grad_hidden.dtype), grad_weight * gradients[0], None, None, None


class _RDropLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        alpha: float,
        chunk_logits: int | None,
    ) -> tuple[Tensor, Tensor]:
        chunk = _tokens_at_once(hidden, 2 * weight.size(0), chunk_logits)
        operand = weight.to(hidden.dtype)
        exact = torch.promote_types(hidden.dtype, torch.float32)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        loss, nll = (hidden.new_zeros((), dtype=exact) for _ in range(2))
        for start in range(0, hidden.size(1), chunk):
            part = hidden[:, start : start + chunk].flatten(0, 1)  # [2 chunk, d_model]
            log_probs = torch.log_softmax((part @ operand.t()).to(exact), dim=-1)  # [2 chunk, vocabulary]
            target = targets[start : start + chunk].repeat(2)[:, None]
            chunk_loss, chunk_nll, grad_logits = _r_drop_of(log_probs, target, smoothing, alpha)
            loss += chunk_loss
            nll += chunk_nll
            grad = grad_logits.to(hidden.dtype)
            grad_hidden[:, start : start + chunk] = (grad @ operand).view(2, -1, hidden.size(-1))
            _add_product(grad_weight, grad, part)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None, None, None, None]:
        return *_ProjectedLoss.backward(ctx, *gradients), None


class _DistillationLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        taught: Tensor,
        teacher: Tensor,
        targets: Tensor,
        chunk_logits: int | None,
    ) -> tuple[Tensor, Tensor]:
        chunk = _tokens_at_once(hidden, 2 * weight.size(0), chunk_logits)
        operand, taught_operand = weight.to(hidden.dtype), teacher.to(taught.dtype)
        exact = torch.promote_types(hidden.dtype, torch.float32)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        loss, nll = (hidden.new_zeros((), dtype=exact) for _ in range(2))
        for start in range(0, hidden.size(0), chunk):
            part, target = hidden[start : start + chunk], targets[start : start + chunk, None]
            log_probs = torch.log_softmax((part @ operand.t()).to(exact), dim=-1)  # [chunk, vocabulary]
            wanted = torch.softmax((taught[start : start + chunk] @ taught_operand.t()).to(exact), dim=-1)
            nll -= log_probs.gather(-1, target).sum()
            loss -= (wanted * log_probs).sum()
            grad = log_probs.exp_().sub_(wanted).to(hidden.dtype)  # by the logits
            torch.mm(grad, operand, out=grad_hidden[start : start + chunk])
            _add_product(grad_weight, grad, part)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, None, None, None, None]:
        return *_ProjectedLoss.backward(ctx, *gradients)[:2], None, None, None, None


def _r_drop_of(log_probs: Tensor, target: Tensor, smoothing: float, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, negative log likelihood and gradient of the logits; `log_probs` is used up.

    log_probs and gradient [2 tokens, vocabulary], target [2 tokens, 1]: one pass after the other.
    """
    spread = smoothing / log_probs.size(-1)
    nll = -log_probs.gather(-1, target).sum() / 2
    loss = (1 - smoothing) * nll
    if smoothing:
        loss -= log_probs.sum() * (spread / 2)
    first, second = log_probs.chunk(2)
    ratio = torch.cat([first - second, second - first])
    probs = log_probs.exp_()
    divergence = (probs * ratio).sum(-1, keepdim=True)  # KL(P || Q), and below it KL(Q || P)
    loss += divergence.sum() * (alpha / 4)
    # By P's logits: d cross entropy = P - target distribution; d KL(P || Q) = P (log P / Q - KL(P || Q));
    # d KL(Q || P) = P - Q.
    grad = ratio.sub_(divergence).mul_(alpha / 4).add_(0.5).mul_(probs)
    first, second = probs.chunk(2)
    grad.add_(torch.cat([first - second, second - first]), alpha=alpha / 4)
    if smoothing:
        grad -= spread / 2
    grad.scatter_add_(-1, target, grad.new_full(target.shape, (smoothing - 1) / 2))
    return loss, nll, grad


def _tokens_at_once(hidden: Tensor, logits: int, chunk_logits: int | None) -> int:
    """The number of tokens in a chunk, of `logits` each."""
    if chunk_logits is None:
        chunk_logits = CHUNK_LOGITS if hidden.device.type == "cpu" else GPU_CHUNK_LOGITS
    return max(1, chunk_logits // logits)


def _add_product(grad_weight: Tensor, grad: Tensor, hidden: Tensor) -> None:
    """grad_weight += grad^T hidden, as exactly as `grad_weight` is."""
    if grad.dtype == grad_weight.dtype:
        grad_weight.addmm_(grad.t(), hidden)
    else:
        grad_weight += grad.t() @ hidden
