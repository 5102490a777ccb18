"""The command `export`: measures a run's best weights, and writes a bundle that the service loads.

python -m training export --run runs/mine --data data/mine --out mine/en-fr
python -m training export --to ctranslate2 --bundle bundles/en-fr --out ct2/en-fr
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.export.bundle import ExportArguments, export_or_convert


@command_from_options
def export(options: ExportArguments) -> None:
    """Export a run's best weights, averaged if that helps, as a bundle with measurements; or convert a bundle for
    CTranslate2."""
    export_or_convert(options, typer.echo)
