"""The command `run`: from a file of sentence pairs to a bundle in one resumable command.

python -m training run --pairs my.tsv --source en --target fr --out mine/en-fr
python -m training run --pairs my.tsv --init bundles/en-fr --out mine/adapted
python -m training run --recipe recipes/en-fr.toml --corpora DIR --out bundles/en-fr --replace
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.pipeline.options import RunArguments
from training.pipeline.run import run_all


@command_from_options
def run(options: RunArguments) -> None:
    """Train in one command: from a file of sentence pairs to a bundle that the service loads.

    If it is interrupted, the same command resumes.
    """
    run_all(options, typer.echo)
