"""The command `pair`: sentence pairs of XML in two languages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from model.atomic_files import replacing_file
from training.command_line import command_from_options
from training.corpora.unit_pairs import PairedUnits
from training.options import SOURCE, TARGET, Option

DEFAULT_ELEMENTS = ("p", "para", "li", "item", "dt", "dd", "td", "h1", "h2", "h3", "h4")


@dataclass(frozen=True)
class PairOptions:
    """Options of `pair`."""

    original: Annotated[Path, Option(is_argument=True, metavar="ORIGINAL")]
    """An XML or HTML file in the source language, or a folder of them."""
    translation: Annotated[Path, Option(is_argument=True, metavar="TRANSLATION")]
    """The same in the target language; its elements have the same ids."""
    source: Annotated[str, SOURCE]
    target: Annotated[str, TARGET]
    out: Path
    """The file to make: a pair a line, with a tab between its sides."""
    element: Annotated[tuple[str, ...], Option(metavar="NAME")] = ()
    """The elements that are paragraphs; repeat for more. (default: p, para, li, item, dt, dd, td and
    h1 to h4)"""
    max_chars: int = 400
    """Leave out pairs with a longer side."""


@command_from_options
def pair(options: PairOptions) -> None:
    """Write the sentence pairs of XML or HTML in two languages, by ids.

    interlinear pair manual/en manual/es --source en --target es --out manual.en-es.tsv

    For manuals and textbooks whose translation kept the ids of the original's paragraphs, such as CNXML, DocBook, DITA
    and HTML. Left out are formulas, images, and paragraphs with more or fewer sentences than their translations.
    """
    pairs = PairedUnits(
        options.original,
        options.translation,
        (options.source, options.target),
        options.element or DEFAULT_ELEMENTS,
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
