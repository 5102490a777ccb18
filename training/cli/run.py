"""The command `run`, `interlinear train`: from a file of sentence pairs to a bundle in one resumable command."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.pipeline.options import RunArguments
from training.pipeline.run import run_all


@command_from_options
def run(options: RunArguments) -> None:
    """Train or adapt a bundle from sentence pairs, in one command.

    interlinear train --pairs my.tsv --source en --target fr --out mine/en-fr

    interlinear train --init bundles/en-fr --pairs my.tsv --out adapted/en-fr

    If it is interrupted, the same command resumes.
    """
    run_all(options, typer.echo)
