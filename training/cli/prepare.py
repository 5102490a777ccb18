"""The command `prepare`: converts files of sentence pairs to a data folder of token ids, which `train` reads."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora


@command_from_options
def prepare(options: PrepareOptions) -> None:
    """Clean sentence pairs and convert them to token ids.

    interlinear prepare --pairs my.tsv --source en --target fr --out data/mine

    It splits off a development set, learns a vocabulary, and writes a data folder that `train-step` reads.
    """
    prepare_corpora(options, typer.echo)
