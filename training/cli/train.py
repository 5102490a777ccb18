"""The command `train`, `interlinear train-step`: trains on prepared pairs, and writes checkpoints and curves."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.optim.training_run import TrainOptions, train_prepared


@command_from_options
def train(options: TrainOptions) -> None:
    """Train a model on prepared data.

    interlinear train-step --data data/mine --out runs/mine

    If it is interrupted, the same command resumes.
    """
    train_prepared(options, typer.echo)
