"""The command `unpack`: a data folder or a run again from its parts."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.export import pack as packing
from training.export.pack import UnpackOptions


@command_from_options
def unpack(options: UnpackOptions) -> None:
    """Make prepared data or a run again from packed parts.

    interlinear unpack parts/mine --out data/mine
    """
    packing.unpack(options, typer.echo)
