"""The command `translate`: translates one side of a file with a bundle, to make pairs for a student model.

python -m training translate --bundle mine/teacher --pairs train.tsv --out distilled.tsv
python -m training translate --bundle bundles/fr-en --texts french.txt --back --out made.tsv
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.synthetic.translate import TranslateOptions, translate_file


@command_from_options
def translate(options: TranslateOptions) -> None:
    """Translate one side of a file with a bundle, to make training pairs: distillation and back-translation.

    If it is interrupted, the same command resumes.
    """
    translate_file(options, typer.echo)
