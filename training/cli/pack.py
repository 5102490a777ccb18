"""The command `pack`: a data folder or a run as parts that travel.

python -m training pack data/mine --out parts/mine --part-mib 16
"""

from __future__ import annotations

import typer

from training.cli.builder import command_from_options
from training.export import pack as packing
from training.export.pack import PackOptions


@command_from_options
def pack(options: PackOptions) -> None:
    """Pack a data folder or a run into parts of a given size that travel, with checksums."""
    packing.pack(options, typer.echo)
