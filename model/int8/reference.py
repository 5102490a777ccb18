"""8-bit quantisation: how weights and activations are rounded, and products of quantised matrices in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.transformer import Transformer, replace_linears


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [rows, columns] as int8 and one float32 scale per row: x is about int8 * scale, the largest magnitude 127.

    Symmetric, rounding half to even; a row of zeros has scale 0, and a row with a NaN the scale NaN.
    """
    largest = x.float().abs().amax(-1)  # [rows]
    inverse = torch.where(largest == 0, 0.0, 127.0 / largest)
    return (x.float() * inverse[:, None]).round().to(torch.int8), largest / 127.0


class QuantisedLinear(nn.Module):
    """A Linear with 8-bit weights, one scale per output, and 8-bit inputs, quantised by row as they come.

    Sums of integers are exact: a row's outputs do not depend on the number of rows beside it or on their values.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantise_rows(linear.weight.detach())
        self.register_buffer("weight", weight)  # [outputs, inputs]
        self.register_buffer("scale", scale)  # [outputs]
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_range(x, 0, len(self.weight))

    def forward_range(self, x: Tensor, first: int, last: int) -> Tensor:
        """Outputs `first` to `last` - 1 of x [..., inputs]."""
        rows, scales = quantise_rows(x.flatten(0, -2))
        sums = torch._int_mm(rows, self.weight[first:last].t())  # [rows, outputs], int32
        y = sums * scales[:, None] * self.scale[first:last]
        return (y if self.bias is None else y.add_(self.bias[first:last])).view(*x.shape[:-1], -1)


def with_quantised_products(model: Transformer) -> Transformer:
    """A copy of `model` that shares its embeddings and norms, with every Linear quantised."""
    return replace_linears(model, QuantisedLinear)
