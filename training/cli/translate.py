"""The command `translate`, `interlinear distil`: translates one side of a file, to make pairs for a student model."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.synthetic.translate import TranslateOptions, translate_file


@command_from_options
def translate(options: TranslateOptions) -> None:
    """Translate one side of a file, to make training pairs.

    interlinear distil --bundle mine/teacher --pairs train.tsv --out distilled.tsv

    interlinear distil --bundle bundles/fr-en --texts fr.txt --back --out made.tsv

    The first is distillation, the second back-translation. If it is interrupted, the same command resumes.
    """
    translate_file(options, typer.echo)
