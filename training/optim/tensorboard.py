"""Writes a run's curves for TensorBoard, if that is installed; imports it only then."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

FOLDER = "tensorboard"


def write_tensorboard(run: Path, row: Mapping[str, float]) -> None:
    """Adds an evaluation's `row` to the event files in `run`/tensorboard; later steps there are invalidated."""
    if find_spec("tensorboard") is None:
        return
    from torch.utils.tensorboard import SummaryWriter

    step = int(row["step"])
    with SummaryWriter(str(run / FOLDER), purge_step=step) as writer:
        for name, value in row.items():
            if name != "step" and not math.isnan(value):
                writer.add_scalar(name, value, step)
