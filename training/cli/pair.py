"""The command `pair`: sentence pairs of files in two languages, by the ids of their units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from model.atomic_files import replacing_file
from training.command_line import command_from_options
from training.corpora.unit_pairs import PairedUnits
from training.options import SOURCE, TARGET, Option


@dataclass(frozen=True)
class PairOptions:
    """Options of `pair`."""

    original: Annotated[Path, Option(is_argument=True, metavar="ORIGINAL")]
    """A file in the source language, or a folder of them: XML, HTML, JSON, YAML or Fluent."""
    translation: Annotated[Path, Option(is_argument=True, metavar="TRANSLATION")]
    """The same in the target language, with the same ids or keys."""
    source: Annotated[str, SOURCE]
    target: Annotated[str, TARGET]
    out: Path
    """The file to make: a pair a line, with a tab between its sides."""
    element: Annotated[tuple[str, ...], Option(metavar="NAME")] = ()
    """Read only elements of this name, or strings of this key; repeat for more. (default: of XML and HTML p, para, li,
    item, dt, dd, td and h1 to h4, of other files all)"""
    min_letters: int = 15
    """Leave out pairs with a shorter side, such as labels."""
    max_chars: int = 400
    """Leave out pairs with a longer side."""


@command_from_options
def pair(options: PairOptions) -> None:
    """Write the sentence pairs of texts that have the same ids.

    interlinear pair manual/en manual/es --source en --target es --out pairs.tsv

    For manuals and textbooks whose translation kept the ids of the original's paragraphs, such as CNXML, DocBook, DITA
    and HTML, and for the strings of programs in JSON, YAML and Fluent. Left out are formulas, images, values that a
    program fills in, and units with more or fewer sentences than their translations.
    """
    pairs = PairedUnits(
        options.original,
        options.translation,
        (options.source, options.target),
        options.element,
        options.min_letters,
        options.max_chars,
    )
    count = 0
    with replacing_file(options.out) as out:
        for source, target in pairs:
            out.write(f"{source}\t{target}\n".encode())
            count += 1
    typer.echo(f"{count:,} pairs in {options.out}")
    for reason, number in pairs.left_out.most_common():
        typer.echo(f"left out, {reason}: {number:,}")
