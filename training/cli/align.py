"""The command `align`: trains the alignment head of a bundle that exists."""

from __future__ import annotations

import typer

from training.align.command import AlignOptions, align_bundle
from training.command_line import command_from_options


@command_from_options
def align(options: AlignOptions) -> None:
    """Teach a bundle which word translates which, to place tags.

    interlinear align --bundle bundles/en-fr --pairs train.tsv --test dev.tsv

    By this tags, links and terms find their words; what the model computes stays.
    """
    align_bundle(options, typer.echo)
