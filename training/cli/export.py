"""The command `export`: measures a run's best weights, and writes a bundle that the service loads."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.export.bundle import ExportArguments, export_or_convert


@command_from_options
def export(options: ExportArguments) -> None:
    """Export a run as a bundle, or a bundle for another program.

    interlinear export --run runs/mine --data data/mine --out mine/en-fr

    interlinear export --to ctranslate2 --bundle bundles/en-fr --out ct2/en-fr

    interlinear export --to argos --bundle bundles/en-fr --out en-fr.argosmodel

    A bundle gets the run's best weights, averaged if that helps, and its measurements.
    """
    export_or_convert(options, typer.echo)
