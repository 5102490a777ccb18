"""The command `import`: makes a bundle of a published model.

python -m training import firefox:en-fr
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.importing.command import import_model as make_bundle
from training.importing.options import ImportOptions


@command_from_options
def import_model(options: ImportOptions) -> None:
    """Make a bundle of a published model: from a registry, such as firefox:en-fr, or of a file or folder."""
    make_bundle(options, typer.echo)
