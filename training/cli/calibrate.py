"""The command `calibrate`: fits the quality estimates of a bundle that exists."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.evaluation.calibrate import CalibrateOptions, calibrate_bundle


@command_from_options
def calibrate(options: CalibrateOptions) -> None:
    """Fit a bundle's estimates of how good its translations are.

    interlinear calibrate --bundle bundles/en-fr --pairs dev.tsv --test test.tsv

    The pairs must be some that it was not trained on.
    """
    calibrate_bundle(options, typer.echo)
