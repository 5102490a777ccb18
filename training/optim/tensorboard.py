"""A run's curves for TensorBoard, where that is installed; nothing of it is imported otherwise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

FOLDER = "tensorboard"


def write_board(run: Path, row: Mapping[str, float]) -> None:
    """Adds an evaluation's `row` to the event files in `run`/tensorboard; those of later steps no longer count."""
    if find_spec("tensorboard") is None:
        return
    from torch.utils.tensorboard import SummaryWriter

    step = int(row["step"])
    with SummaryWriter(str(run / FOLDER), purge_step=step) as writer:
        for name, value in row.items():
            if name != "step" and not math.isnan(value):
                writer.add_scalar(name, value, step)
