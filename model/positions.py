"""Sinusoidal positions, without PyTorch: the float model and the int8 kernels use the same table."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=4)
def sinusoidal_positions(length: int, d_model: int) -> NDArray[np.float32]:
    """Positional encodings (section 3.5), [length, d_model]. Do not change the array, which is cached.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model)), by the C library's
    functions, value by value: those of NumPy and PyTorch vary with the instruction set.
    """
    rates = [math.exp(i * -math.log(10000.0) / d_model) for i in range(0, d_model, 2)]
    rows = [[f(position * rate) for rate in rates for f in (math.sin, math.cos)] for position in range(length)]
    return np.array(rows, np.float32)
