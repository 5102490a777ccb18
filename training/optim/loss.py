"""Training criteria, fused with the vocabulary projection: label-smoothed cross entropy, R-Drop, distillation.

The logits of a batch are never held as a whole. They would be by far the largest tensor of a step, and on a CPU moving
them costs more than computing them. Each criterion computes loss and gradient chunk by chunk. On a GPU, label-smoothed
cross entropy in bfloat16 is one Triton kernel (`training.optim.triton_cross_entropy`), never run on a GPU.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK_LOGITS = 1 << 21
"""Logits per chunk on a CPU. More would not fit into the processor's caches."""
GPU_CHUNK_LOGITS = 1 << 29
"""Logits per chunk on a GPU, which bounds the memory."""
EXCLUDED_BIAS = -50.0
"""A token with an output bias below it is one that the model must never choose (`training.importing.model.ADDED_BIAS`),
so that smoothing gives it no probability: else training would slowly undo the bias."""


class Projection(NamedTuple):
    """The vocabulary projection: logits = hidden weight^T + bias."""

    weight: Tensor
    """[vocabulary, d_model]"""
    bias: Tensor | None = None
    """[vocabulary], or none"""


def projected_loss(
    hidden: Tensor,
    output: Projection,
    targets: Tensor,
    smoothing: float = 0.0,
    *,
    log_weights: Tensor | None = None,
    chunk_logits: int | None = None,
    fused: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The cross entropy of softmax(logits) and smoothed targets, summed over tokens; also without smoothing.

    hidden [tokens, d_model], targets [tokens]. The target distribution is (1 - smoothing) on the target plus
    smoothing in equal shares on all tokens, but those that their bias excludes (Szegedy et al. 2016, section 7; Vaswani
    et al. 2017, section 5.4), as in `torch.nn.functional.cross_entropy`. Returns two scalars in nats: the loss to
    differentiate, and the plain negative log likelihood, for reports, which carries no gradient. `log_weights`
    [vocabulary]: the logarithm of how many tokens each one stands for, see `sampled_loss`; 0 for targets.
    `chunk_logits`: logits per chunk; None is CHUNK_LOGITS, or GPU_CHUNK_LOGITS. `fused`: whether to use the Triton
    kernel; None: where it applies.
    """
    chunk_tokens = _chunk_tokens(hidden, output.weight.size(0), chunk_logits)
    if log_weights is None and (_is_fused(hidden, output) if fused is None else fused):
        return _summed(hidden[None], output, _fused_criterion(targets, smoothing), chunk_tokens)
    smooth = _Smoothing.over(output, smoothing, log_weights)
    bias = output.bias
    if log_weights is not None:
        bias = log_weights if bias is None else bias.detach() + log_weights

    def criterion(log_probs: Tensor, chunk: slice, with_gradient: bool) -> ChunkLoss:
        target = targets[chunk, None]
        nll = -log_probs.gather(-1, target).sum()
        loss = [(1 - smoothing) * nll]
        if smoothing:
            loss.append(-smooth.total(log_probs))
        if not with_gradient:
            return ChunkLoss(loss, nll)
        # d loss / d logits = softmax - target distribution
        gradient = log_probs.exp_()
        if smoothing:
            gradient -= smooth.share
        gradient.scatter_add_(-1, target, gradient.new_full(target.shape, smoothing - 1))
        return ChunkLoss(loss, nll, gradient)

    return _summed(hidden[None], output, _of_log_probs(criterion, bias), chunk_tokens)


def sampled_loss(
    hidden: Tensor, output: Projection, targets: Tensor, smoothing: float, samples: int
) -> tuple[Tensor, Tensor]:
    """An estimate of `projected_loss`: its softmax is over the tokens among the targets and `samples` others.

    The others are drawn uniformly, and each stands for as many as are left out, in the normalisation and in smoothing,
    so that both are right on average (importance sampling, as in Jean et al. 2015, section 3.1). Takes and returns what
    `projected_loss` does.
    """
    vocabulary = output.weight.size(0)
    is_other = torch.ones(vocabulary, dtype=torch.bool, device=targets.device)
    is_other[targets] = False
    others, predicted = is_other.nonzero()[:, 0], is_other.logical_not().nonzero()[:, 0]
    drawn = others[torch.randperm(len(others), device=others.device)[:samples]]
    candidates = torch.cat([predicted, drawn])
    places = torch.empty(vocabulary, dtype=torch.int64, device=targets.device)
    places[candidates] = torch.arange(len(candidates), device=targets.device)
    log_weights = torch.zeros(len(candidates), device=targets.device)
    log_weights[len(predicted) :] = math.log(max(1, len(others)) / max(1, len(drawn)))
    chosen = Projection(output.weight[candidates], None if output.bias is None else output.bias[candidates])
    return projected_loss(hidden, chosen, places[targets], smoothing, log_weights=log_weights)


def _is_fused(hidden: Tensor, output: Projection) -> bool:
    """Whether the Triton kernel computes the loss: in bfloat16 on a GPU, without an output bias, where it works."""
    return hidden.is_cuda and hidden.dtype == torch.bfloat16 and output.bias is None and kernel_works(hidden.device)


@cache
def kernel_works(device: torch.device) -> bool:
    """Whether Triton is there, compiles the kernel, for which it needs a C compiler, and computes what PyTorch does.

    If it is there and does not, says so once: training goes PyTorch's way, and takes longer.
    """
    if importlib.util.find_spec("triton") is None:
        return False
    logits = torch.linspace(-4, 4, 3 * 70, device=device).sin().mul(9).view(3, 70).bfloat16()  # draws no random number
    exact, targets = logits.double().requires_grad_(), torch.tensor([0, 33, 69], device=device)
    expected = F.cross_entropy(exact, targets, label_smoothing=0.1, reduction="none")
    [gradient] = torch.autograd.grad(expected.sum(), exact)
    try:
        from training.optim.triton_cross_entropy import cross_entropy_

        loss, _ = cross_entropy_(logits, targets, 0.1, True)
        works = torch.allclose(loss.double(), expected, rtol=1e-3) and torch.allclose(
            logits.double(), gradient, rtol=0.01, atol=1e-4
        )
        reason = "its result is not PyTorch's"
    except Exception as error:  # of many kinds: no compiler, no headers, a card that it does not know
        works, reason = False, str(error).strip().partition("\n")[0] or type(error).__name__
    if not works:
        warnings.warn(f"the loss is computed by PyTorch, not by the faster Triton kernel: {reason}", stacklevel=2)
    return works


def _fused_criterion(targets: Tensor, smoothing: float) -> Criterion:
    """Label-smoothed cross entropy by the Triton kernel, which overwrites the logits with their gradient."""
    from training.optim.triton_cross_entropy import cross_entropy_  # PyTorch's builds for CPUs have no Triton

    def criterion(logits: Tensor, chunk: slice, with_gradient: bool) -> ChunkLoss:
        loss, nll = cross_entropy_(logits, targets[chunk], smoothing, with_gradient)
        return ChunkLoss([loss.sum()], nll.sum(), logits if with_gradient else None)

    return criterion


def r_drop_loss(
    hidden: Tensor,
    output: Projection,
    targets: Tensor,
    smoothing: float,
    alpha: float,
    *,
    chunk_logits: int | None = None,
) -> tuple[Tensor, Tensor]:
    """R-Drop (Wu et al. 2021, section 2, equations 2 to 4): two passes must predict the targets, and the same.

    hidden [2, tokens, d_model], the passes; targets [tokens]. With the cross entropies C of `projected_loss` and the
    passes' distributions P and Q, the loss is

        (C(P) + C(Q)) / 2 + alpha / 4 (KL(P || Q) + KL(Q || P)), summed over tokens:

    half of equation 4, so that alpha is the paper's (5 for translation) and the scale that of one pass. Returns what
    `projected_loss` does; the negative log likelihood is the mean of both passes.
    """
    smooth = _Smoothing.over(output, smoothing)

    def criterion(log_probs: Tensor, chunk: slice, with_gradient: bool) -> ChunkLoss:
        """log_probs [2 chunk, vocabulary]: one pass after the other."""
        target = targets[chunk].repeat(2)[:, None]  # [2 chunk, 1]
        nll = -log_probs.gather(-1, target).sum() / 2
        loss = (1 - smoothing) * nll
        if smoothing:
            loss -= smooth.total(log_probs) / 2
        first, second = log_probs.chunk(2)
        ratio = torch.cat([first - second, second - first])
        probs = log_probs.exp_()
        divergence = (probs * ratio).sum(-1, keepdim=True)  # KL(P || Q), and below it KL(Q || P)
        loss += divergence.sum() * (alpha / 4)
        if not with_gradient:
            return ChunkLoss([loss], nll)
        # By P's logits: d cross entropy = P - target distribution; d KL(P || Q) = P (log P / Q - KL(P || Q));
        # d KL(Q || P) = P - Q.
        gradient = ratio.sub_(divergence).mul_(alpha / 4).add_(0.5).mul_(probs)
        first, second = probs.chunk(2)
        gradient.add_(torch.cat([first - second, second - first]), alpha=alpha / 4)
        if smoothing:
            gradient -= smooth.share / 2
        gradient.scatter_add_(-1, target, gradient.new_full(target.shape, (smoothing - 1) / 2))
        return ChunkLoss([loss], nll, gradient)

    chunk_tokens = _chunk_tokens(hidden, 2 * output.weight.size(0), chunk_logits)
    return _summed(hidden, output, _of_log_probs(criterion, output.bias), chunk_tokens)


def distillation_loss(
    hidden: Tensor,
    output: Projection,
    teacher_hidden: Tensor,
    teacher_output: Projection,
    targets: Tensor,
    *,
    chunk_logits: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Word-level knowledge distillation (Hinton et al. 2015; Kim & Rush 2016, section 3.1): the cross entropy of the
    teacher's probabilities and ours, summed over tokens.

    Both hidden [tokens, d_model], targets [tokens]. The teacher gets no gradient. Returns what `projected_loss` does;
    only the second scalar depends on `targets`. The first is at least the teacher's entropy.
    """
    teacher_operand = teacher_output.weight.detach().to(teacher_hidden.dtype)

    def criterion(log_probs: Tensor, chunk: slice, with_gradient: bool) -> ChunkLoss:
        nll = -log_probs.gather(-1, targets[chunk, None]).sum()
        logits = (teacher_hidden.detach()[chunk] @ teacher_operand.t()).to(log_probs.dtype)  # [chunk, vocabulary]
        if teacher_output.bias is not None:
            logits += teacher_output.bias.detach()
        teacher_probs = torch.softmax(logits, dim=-1)
        loss = -(teacher_probs * log_probs).sum()
        return ChunkLoss([loss], nll, log_probs.exp_().sub_(teacher_probs) if with_gradient else None)

    chunk_tokens = _chunk_tokens(hidden, 2 * output.weight.size(0), chunk_logits)
    return _summed(hidden[None], output, _of_log_probs(criterion, output.bias), chunk_tokens)


class _Smoothing(NamedTuple):
    """What label smoothing gives each token."""

    share: Tensor | float
    """[vocabulary], or the same for all"""
    log_weights: Tensor | float = 0.0
    """[vocabulary], or the same for all: by how much each token's log probability is too large"""

    @classmethod
    def over(cls, output: Projection, smoothing: float, log_weights: Tensor | None = None) -> _Smoothing:
        if not smoothing or (output.bias is None and log_weights is None):
            return cls(smoothing / output.weight.size(0))
        stands_for = output.weight.new_ones(len(output.weight)) if log_weights is None else log_weights.exp()
        if output.bias is not None:
            stands_for = stands_for * (output.bias.detach() >= EXCLUDED_BIAS)
        return cls(stands_for * (smoothing / stands_for.sum()), 0.0 if log_weights is None else log_weights)

    def total(self, log_probs: Tensor) -> Tensor:
        """The sum of log_probs [tokens, vocabulary], each times its token's share."""
        if isinstance(self.share, float):
            return log_probs.sum() * self.share
        return ((log_probs.sum(0) - len(log_probs) * self.log_weights) * self.share).sum()


class ChunkLoss(NamedTuple):
    """A criterion's result for a chunk of tokens."""

    terms: list[Tensor]
    """Scalars whose sum is the loss."""
    nll: Tensor
    """The negative log likelihood of the targets, a scalar."""
    gradient: Tensor | None = None
    """Of the loss, by the logits: their shape."""


Criterion = Callable[[Tensor, slice, bool], ChunkLoss]
"""(logits, chunk, with_gradient) -> loss: logits [passes * chunk, vocabulary], which it may overwrite, are those of the
tokens in `chunk`, in the type of the product and without the output bias."""


def _of_log_probs(criterion: Criterion, bias: Tensor | None) -> Criterion:
    """A criterion of logits made of one that takes log probabilities, in float32 at least, in their place."""

    def of_logits(logits: Tensor, chunk: slice, with_gradient: bool) -> ChunkLoss:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if bias is not None:
            logits += bias.detach()
        return criterion(torch.log_softmax(logits, dim=-1), chunk, with_gradient)

    return of_logits


def _summed(hidden: Tensor, output: Projection, criterion: Criterion, chunk_tokens: int) -> tuple[Tensor, Tensor]:
    """Sums loss and negative log likelihood over the chunks of hidden [passes, tokens, d_model]."""
    weight, bias = output
    if not torch.is_grad_enabled():  # _SummedLoss cannot see this, and would compute gradients for the weights
        hidden, weight, bias = hidden.detach(), weight.detach(), None if bias is None else bias.detach()
    loss, nll = _SummedLoss.apply(hidden, weight, bias, criterion, chunk_tokens)  # type: ignore[no-untyped-call]
    return loss, nll


class _SummedLoss(torch.autograd.Function):
    """Computes each chunk's gradient in the forward pass, while its probabilities are at hand."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, criterion: Criterion, chunk_tokens: int
    ) -> tuple[Tensor, Tensor]:
        with_gradient = any(ctx.needs_input_grad[:3])
        operand = weight.to(hidden.dtype)
        exact = torch.promote_types(hidden.dtype, torch.float32)
        grad_hidden = torch.empty_like(hidden) if with_gradient else None
        grad_weight = torch.zeros_like(weight) if with_gradient else None
        grad_bias = torch.zeros_like(bias) if with_gradient and bias is not None else None
        loss, nll = (hidden.new_zeros((), dtype=exact) for _ in range(2))
        for start in range(0, hidden.size(1), chunk_tokens):
            chunk = slice(start, start + chunk_tokens)
            part = hidden[:, chunk].flatten(0, 1)  # [passes * chunk, d_model]
            found = criterion(part @ operand.t(), chunk, with_gradient)  # of logits [passes * chunk, vocabulary]
            for term in found.terms:
                loss += term
            nll += found.nll
            if found.gradient is None or grad_hidden is None or grad_weight is None:
                continue
            if grad_bias is not None:
                grad_bias += found.gradient.sum(0)
            gradient = found.gradient.to(hidden.dtype)
            grad_hidden[:, chunk] = (gradient @ operand).view(hidden.size(0), -1, hidden.size(-1))
            _add_product(grad_weight, gradient, part)
        if with_gradient:
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor, Tensor | None, None, None]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return (
            grad_hidden * gradients[0].to(grad_hidden.dtype),
            grad_weight * gradients[0],
            None if grad_bias is None else grad_bias * gradients[0],
            None,
            None,
        )


def _chunk_tokens(hidden: Tensor, logits_per_token: int, chunk_logits: int | None) -> int:
    if chunk_logits is None:
        chunk_logits = CHUNK_LOGITS if hidden.device.type == "cpu" else GPU_CHUNK_LOGITS
    return max(1, chunk_logits // logits_per_token)


def _add_product(grad_weight: Tensor, gradient: Tensor, hidden: Tensor) -> None:
    """grad_weight += gradient^T hidden, as exactly as `grad_weight` is."""
    if gradient.dtype == grad_weight.dtype:
        grad_weight.addmm_(gradient.t(), hidden)
    else:
        grad_weight += gradient.t() @ hidden
