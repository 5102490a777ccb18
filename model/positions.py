"""Sinusoidal positions, without PyTorch: the float model and the int8 kernels use the same table."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from model.config import ModelConfig


def computed_positions(config: ModelConfig) -> NDArray[np.float32]:
    """The table of a model whose positions are not learned, [max_positions, d_model]. Do not change the array."""
    table = marian_positions if config.positions == "marian" else sinusoidal_positions
    return table(config.max_positions, config.d_model)


@lru_cache(maxsize=4)
def sinusoidal_positions(length: int, d_model: int) -> NDArray[np.float32]:
    """Positional encodings (section 3.5), [length, d_model]. Do not change the array, which is cached.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(pos / 10000^(2i / d_model)), by the C library's
    functions, value by value: those of NumPy and PyTorch vary with the instruction set.
    """
    rates = [math.exp(i * -math.log(10000.0) / d_model) for i in range(0, d_model, 2)]
    rows = [[f(position * rate) for rate in rates for f in (math.sin, math.cos)] for position in range(length)]
    return np.array(rows, np.float32)


@lru_cache(maxsize=4)
def marian_positions(length: int, d_model: int) -> NDArray[np.float32]:
    """The positional encodings of Marian (`SinusoidalPositionEmbeddings`), [length, d_model]. Do not change the array,
    which is cached.

    All sines come before all cosines, and wavelengths grow by 10000^(1 / (d_model / 2 - 1)), not 10000^(2 / d_model).
    """
    half = d_model // 2
    rates = [math.exp(i * -math.log(10000.0) / max(half - 1, 1)) for i in range(half)]
    rows = [[f(position * rate) for f in (math.sin, math.cos) for rate in rates] for position in range(length)]
    return np.array(rows, np.float32)
