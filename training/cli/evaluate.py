"""The command `evaluate`: sacreBLEU and chrF of a bundle on files of sentence pairs, as the service translates them.

python -m training evaluate --bundle bundles/en-fr --pairs test.tsv
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.evaluation.evaluate import EvaluateOptions, evaluate_bundle


@command_from_options
def evaluate(options: EvaluateOptions) -> None:
    """Measure a bundle on test sets, translated as the service does: sacreBLEU with its signature, and chrF."""
    evaluate_bundle(options, typer.echo)
