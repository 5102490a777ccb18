"""The command `adapt`: adapts a bundle in its place to what users have corrected."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.pipeline.from_memory import AdaptOptions, adapt_bundle


@command_from_options
def adapt(options: AdaptOptions) -> None:
    """Adapt a bundle in its place to corrections of its users.

    interlinear adapt --from-memory corrections.tmx --bundle bundles/en-fr

    Part of the pairs is held out: the command shows scores on them and on general sets, before and after, and changes
    nothing if those lose too much. If it is interrupted, the same command resumes.
    """
    adapt_bundle(options, typer.echo)
