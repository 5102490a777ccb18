"""The label-smoothed cross entropy of `training.optim.loss` as one Triton kernel, for bfloat16 logits on a GPU.

Never run on a GPU: a test compares it with float64 in Triton's interpreter. Triton comes with PyTorch's builds for
CUDA; this module needs it, so `training.optim.loss` imports it only where it is installed.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_BLOCK = 4096
"""Logits that a program holds at a time."""


@triton.jit  # type: ignore[untyped-decorator]
def cross_entropy_kernel(
    logits_ptr: tl.tensor,
    targets_ptr: tl.tensor,
    loss_ptr: tl.tensor,
    nll_ptr: tl.tensor,
    row_stride: tl.tensor,
    vocabulary: tl.tensor,
    smoothing: tl.tensor,
    WITH_GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One program per row, which reads it twice: for maximum and sums, then to overwrite it with the gradient."""
    row = tl.program_id(0).to(tl.int64)  # rows times the vocabulary may exceed 2^31
    row_ptr = logits_ptr + row * row_stride
    target = tl.load(targets_ptr + row)
    at_target = tl.load(row_ptr + target).to(tl.float32)
    maximum = tl.full((), -float("inf"), tl.float32)
    exponentials = tl.zeros((), tl.float32)  # sum of exp(logit - maximum), rescaled as the maximum grows
    total = tl.zeros((), tl.float32)  # sum of the logits
    for start in range(0, vocabulary, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < vocabulary
        x = tl.load(row_ptr + column, mask=inside, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(maximum, tl.max(x, 0))
        shift = tl.where(higher == -float("inf"), 0.0, higher)  # -inf - -inf would spoil the rows' other blocks
        exponentials = exponentials * tl.exp(maximum - shift) + tl.sum(tl.exp(x - shift), 0)
        total += tl.sum(tl.where(inside, x, 0.0), 0)
        maximum = higher
    normaliser = maximum + tl.log(exponentials)  # log of the sum of exp(logit); -inf where all logits are
    nll = normaliser - at_target
    tl.store(nll_ptr + row, nll)
    # In two steps: smoothing * (normaliser - total / vocabulary) is NaN for a row without smoothing that has -inf.
    loss = (1.0 - smoothing) * nll
    if smoothing > 0.0:
        loss += smoothing * (normaliser - total / vocabulary)
    tl.store(loss_ptr + row, loss)
    if WITH_GRADIENT:
        share = smoothing / vocabulary
        for start in range(0, vocabulary, BLOCK):
            column = start + tl.arange(0, BLOCK)
            inside = column < vocabulary
            x = tl.load(row_ptr + column, mask=inside, other=0.0).to(tl.float32)
            gradient = tl.exp(x - normaliser) - share - tl.where(column == target, 1.0 - smoothing, 0.0)
            tl.store(row_ptr + column, gradient.to(logits_ptr.dtype.element_ty), mask=inside)


def cross_entropy_(logits: Tensor, targets: Tensor, smoothing: float, with_gradient: bool) -> tuple[Tensor, Tensor]:
    """The smoothed cross entropy and the negative log likelihood of logits [tokens, vocabulary], each [tokens].

    targets [tokens]. Both are float32. `with_gradient` overwrites `logits` with the gradient of the summed loss.
    Smoothing is in equal shares on all tokens. A row that has NaN or +inf, or only -inf, gives NaN, as in PyTorch.
    """
    tokens, vocabulary = logits.shape
    loss, nll = (torch.empty(tokens, dtype=torch.float32, device=logits.device) for _ in range(2))
    if tokens:
        block = min(MAX_BLOCK, triton.next_power_of_2(vocabulary))
        where = logits, targets, loss, nll, logits.stride(0), vocabulary, smoothing
        cross_entropy_kernel[(tokens,)](*where, WITH_GRADIENT=with_gradient, BLOCK=block, num_warps=8)
    return loss, nll
