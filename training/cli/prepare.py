"""The command `prepare`: converts files of sentence pairs to a data folder of token ids, which `train` reads.

python -m training prepare --pairs my.tsv --source en --target fr --out data/mine
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora


@command_from_options
def prepare(options: PrepareOptions) -> None:
    """Clean and split sentence pairs, learn a vocabulary, and write a data folder that `train` reads."""
    prepare_corpora(options, typer.echo)
