"""The command `sentences`: running text as a sentence a line, for back-translation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from model.atomic_files import replacing_file
from training.command_line import command_from_options
from training.corpora.sentences import whole_sentences
from training.options import Option

DEFAULT_ELEMENTS = ("p", "seg")


@dataclass(frozen=True)
class SentencesOptions:
    """Options of `sentences`."""

    files: Annotated[tuple[str, ...], Option(is_argument=True, metavar="FILE...")]
    """Plain text, a paragraph a line, also compressed, or XML."""
    out: Path
    """The file to make: a sentence a line."""
    language: Annotated[str, Option(metavar="CODE")]
    """The language of the text, such as de."""
    element: Annotated[tuple[str, ...], Option(metavar="NAME")] = ()
    """Of XML, the elements whose own text is read; repeat for more. (default: p and seg)"""
    max_chars: int = 300
    """Leave longer sentences out."""


@command_from_options
def sentences(options: SentencesOptions) -> None:
    """Write the whole sentences of running text, each once.

    interlinear sentences proceedings.xml --language de --out german.txt

    Left out are headings, fragments and whatever else does not begin and end as a sentence does. Such a file is for
    `distil --texts german.txt --back`, or a recipe's `texts`.
    """
    count, files = 0, map(Path, options.files)
    with replacing_file(options.out) as out:
        for sentence in whole_sentences(
            files, options.language, options.element or DEFAULT_ELEMENTS, options.max_chars
        ):
            out.write(f"{sentence}\n".encode())
            count += 1
    typer.echo(f"{count:,} sentences in {options.out}")
