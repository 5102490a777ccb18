"""Numbers in 8 bits: how weights and activations are rounded, known here alone."""

from __future__ import annotations

import torch
from torch import Tensor


def quantise_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [rows, columns] as int8 and a float32 scale a row: x is about int8 * scale, the largest magnitude 127.

    Symmetric, rounding half to even; a row of zeros has scale 0, and a row with a NaN the scale NaN.
    """
    largest = x.float().abs().amax(-1)  # [rows]
    inverse = torch.where(largest == 0, 0.0, 127.0 / largest)
    return (x.float() * inverse[:, None]).round().to(torch.int8), largest / 127.0
