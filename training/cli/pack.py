"""The command `pack`: a data folder or a run as parts that travel."""

from __future__ import annotations

import typer

from training.command_line import command_from_options
from training.export import pack as packing
from training.export.pack import PackOptions


@command_from_options
def pack(options: PackOptions) -> None:
    """Pack prepared data or a run into parts that travel.

    interlinear pack data/mine --out parts/mine --part-mib 16

    Each part has at most that size, and a checksum.
    """
    packing.pack(options, typer.echo)
