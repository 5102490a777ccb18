"""The verb `translate`: what a bundle makes of one side of a file, as pairs for a student to learn from.

python -m training translate --bundle mine/teacher --pairs train.tsv --out distilled.tsv
python -m training translate --bundle bundles/fr-en --texts french.txt --back --out made.tsv
"""

from __future__ import annotations

import typer

from training.cli.builder import verb
from training.synthetic.translate import TranslateOptions, translate_file


@verb
def translate(options: TranslateOptions) -> None:
    """Translate one side of a file with a bundle, as pairs to train on: distillation and back-translation.

    Stopped at any moment, the same command goes on where it was.
    """
    translate_file(options, typer.echo)
