"""The learning-rate schedules."""

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


def by_clock(step: int, warmup: int, done: float, cooldown: float) -> float:
    """The share of the peak learning rate at `step`, when the share `done` of the time is over.

    Linear warm-up in steps, then the peak, then in the last `cooldown` of the time linearly to zero (Hägele et al.
    2024, section 3). Holding the peak needs no number of steps, which depends on the machine.
    """
    return min(1.0, step / warmup, fall(done, cooldown))


def fall(done: float, cooldown: float) -> float:
    """The factor of the last `cooldown` of a run, when `done` of it is over: linear from 1 to 0."""
    return max(0.0, min(1.0, (1.0 - done) / cooldown)) if cooldown else 1.0
