"""The command `evaluate`: sacreBLEU and chrF of a bundle on files of sentence pairs."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.evaluation.evaluate import EvaluateOptions, evaluate_bundle


@command_from_options
def evaluate(options: EvaluateOptions) -> None:
    """Measure BLEU and chrF of a bundle, as the service translates.

    interlinear evaluate --bundle bundles/en-fr --pairs test.tsv

    BLEU is sacreBLEU's, with its signature.
    """
    evaluate_bundle(options, typer.echo)
