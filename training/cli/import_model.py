"""The command `import`: makes a bundle of a published model."""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.importing.command import import_model as make_bundle
from training.importing.options import ImportOptions


@command_from_options
def import_model(options: ImportOptions) -> None:
    """Make a bundle of a published model, such as firefox:en-fr.

    interlinear import firefox:en-fr --out imported/en-fr

    interlinear import translate-en_fr-1_9.argosmodel --source en --target fr

    The model comes from a registry (firefox, opus, argos, huggingface), or is a file or folder on disk.
    """
    make_bundle(options, typer.echo)
