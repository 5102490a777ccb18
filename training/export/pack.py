"""The commands `pack` and `unpack`: a data folder or a run as parts that travel, and again from these."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from model.atomic_files import check_replaceable, replacing_folder
from training.data.dataset import RECORD
from training.data.packed_data import KIND as DATA
from training.data.packed_data import pack_data, unpack_data
from training.data.parts import MANIFEST, MIB, Parts, PartsError, describe
from training.export.packed_run import DTYPES, pack_run, unpack_run
from training.export.packed_run import KIND as RUN
from training.file_lock import lock_folder, lock_output
from training.launch import python_command
from training.optim.checkpoint import STATE
from training.options import Option

MARKS = {DATA: RECORD, RUN: STATE}
"""The file by which a folder of each kind is known."""
NAMES = {DATA: "data folder", RUN: "run folder"}
Say = Callable[[str], None]


@dataclass(frozen=True)
class PackOptions:
    """What to pack, and where to."""

    folder: Annotated[Path, Option("The data folder, or the run folder.", metavar="FOLDER", is_argument=True)]
    out: Path
    """The folder of parts to make."""
    part_mib: float = 16.0
    """Size of a part at most, in MiB."""
    dtype: str = "float16"
    """Of a run: type of the weights, float16 or float32. float16 is the type in which `export` stores weights by
    default."""
    weights: int = 1
    """Of a run: pack the weights of this many last evaluations, which `export` averages."""
    replace: bool = False
    """Replace an existing folder of parts."""

    def __post_init__(self) -> None:
        if not 0 < self.part_mib < math.inf or self.part_bytes < 1:
            raise ValueError(f"--part-mib must be above 0, not {self.part_mib:g}")
        if self.dtype not in DTYPES:
            raise ValueError(f"--dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if self.weights < 1:
            raise ValueError(f"--weights must be at least 1, not {self.weights}")

    @property
    def part_bytes(self) -> int:
        return int(self.part_mib * MIB)


@dataclass(frozen=True)
class UnpackOptions:
    """What to unpack, and where to."""

    parts: Annotated[Path, Option("The folder of parts that `pack` made.", metavar="PARTS", is_argument=True)]
    out: Path
    """The data folder or run folder to make."""
    replace: bool = False
    """Replace an existing folder of that kind."""


def pack(options: PackOptions, say: Say = print) -> None:
    """Packs a data folder or a run. Raises ValueError if it is neither, NotReplaceable, BusyError, TrainingError."""
    folder, out = options.folder, options.out
    kind = next((kind for kind, mark in MARKS.items() if (folder / mark).exists()), None)
    if kind is None:
        raise ValueError(
            f"{folder} is neither a data folder nor a run folder: it has no {' and no '.join(MARKS.values())}"
        )
    with lock_output(out):
        check_replaceable(out, options.replace, "folder of parts", MANIFEST)
        if kind == DATA:
            parts = pack_data(folder, out, options.part_bytes)
        else:
            with lock_folder(folder):  # training would replace the weights meanwhile
                parts = pack_run(folder, out, options.part_bytes, options.dtype, options.weights)
    say(f"{out} has {_contents(parts)}: {describe(parts)}")
    say(f"next, where they are needed: {python_command()} -m training unpack {shlex.quote(str(out))} --out FOLDER")


def unpack(options: UnpackOptions, say: Say = print) -> None:
    """Unpacks what `pack` made. Raises PartsError, which names missing or damaged parts, NotReplaceable, BusyError."""
    parts, out = Parts.open(options.parts), options.out
    if parts.kind not in MARKS:
        raise PartsError(f"{options.parts} has parts of an unknown kind, {parts.kind!r}")
    with lock_output(out):
        check_replaceable(out, options.replace, NAMES[parts.kind], MARKS[parts.kind], [options.parts / MANIFEST])
        with replacing_folder(out) as folder:
            if parts.kind == DATA:
                unpack_data(parts, folder)
            else:
                unpack_run(parts, folder)
    say(f"{out} is a {NAMES[parts.kind]} again, with {_contents(parts)}")


def _contents(parts: Parts) -> str:
    record = parts.record
    if parts.kind == DATA:
        return f"{record['pairs']:,} pairs of {record['source']} and {record['target']}"
    several = f" and {len(record['weights']) - 1} before it" if len(record["weights"]) > 1 else ""
    return f"a run of {record['step']:,} steps, weights of its last evaluation{several} in {record['dtype']}"
