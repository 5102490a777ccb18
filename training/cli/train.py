"""The verb `train`: prepared pairs in, a run folder of checkpoints and curves out.

python -m training train --data data/mine --out runs/mine
"""

from __future__ import annotations

import typer

from training.cli.builder import verb
from training.optim.training_run import TrainOptions, train_prepared


@verb
def train(options: TrainOptions) -> None:
    """Train a model on prepared data. Killed at any moment, the same command continues it."""
    train_prepared(options, typer.echo)
