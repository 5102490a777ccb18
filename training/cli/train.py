"""The command `train`: trains on prepared pairs, and writes checkpoints and curves to a run folder.

python -m training train --data data/mine --out runs/mine
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.optim.training_run import TrainOptions, train_prepared


@command_from_options
def train(options: TrainOptions) -> None:
    """Train a model on prepared data. If it is interrupted, the same command resumes."""
    train_prepared(options, typer.echo)
