"""The learning-rate schedule."""

from __future__ import annotations


def noam(step: int, d_model: int, warmup: int, factor: float = 1.0, total: int = 0, cooldown: float = 0.0) -> float:
    """The learning rate of `step`, counted from 1.

    factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5): linear warm-up, then inverse square root decay
    (Vaswani et al. 2017, section 5.3, equation 3). With `cooldown` > 0 the last such share of `total` steps descends
    linearly towards zero instead (Hägele et al. 2024, section 3), which is worth more than averaging when the end is
    known.
    """
    rate: float = factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    tail = cooldown * total
    left = total - step + 1
    return rate * min(1.0, left / (tail + 1)) if tail else rate
