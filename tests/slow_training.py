"""`python -m training`, except that each step after the first SLOW_AFTER takes seconds, so that it is still busy when
it is killed."""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from training.__main__ import main
from training.optim.trainer import Trainer


def slow_down(after: int) -> None:
    step, left = Trainer.step, iter(range(after))

    def slow(trainer: Trainer, *given: Any) -> torch.Tensor:
        if next(left, None) is None:
            time.sleep(5)
        return step(trainer, *given)

    Trainer.step = slow  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    slow_down(int(os.environ["SLOW_AFTER"]))
    main()
