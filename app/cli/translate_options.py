"""The options of `interlinear translate`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from app.settings import PREFIX, Settings

if TYPE_CHECKING:
    from app.cli.offline_engine import Command


def setting_option(name: str) -> Any:
    """An option for the setting `name`, which verifies it and documents its meaning."""
    return typer.Option(help=f"{Settings.model_fields[name].description} (for {PREFIX}{name.upper()})")


def command_from_options(work: Callable[[TranslateOptions], None]) -> Callable[..., None]:
    """Converts `work` to a function that `typer.Typer.command` takes, with the fields of TranslateOptions as
    parameters."""

    @functools.wraps(work)
    def command(**arguments: Any) -> None:
        work(TranslateOptions(**arguments))

    command.__signature__ = inspect.signature(TranslateOptions, eval_str=True)  # type: ignore[attr-defined]
    command.__annotations__ = get_type_hints(TranslateOptions, include_extras=True)
    return command


@dataclass(frozen=True)
class TranslateOptions:
    """What the command line requests. Raises typer.BadParameter for options that do not go together."""

    source: Annotated[str, typer.Option(help="Language of the text, or auto", show_default=False)]
    target: Annotated[str, typer.Option(help="Language to translate into", show_default=False)]
    file: Annotated[
        Path | None,
        typer.Option(help="Translate a document: .docx, .pptx, .xlsx, .odt, .html, .md, .po, .srt and many others"),
    ] = None
    in_: Annotated[
        str | None,
        typer.Option("--in", help="Translate a folder of texts, here or s3://...: txt, tsv, jsonl, parquet; gz, zst"),
    ] = None
    out: Annotated[
        str | None, typer.Option(help="Where to write: for --file, report.fr.docx for report.docx; for --in, a folder")
    ] = None
    column: Annotated[str, typer.Option(help="For --in: the column of the texts")] = "text"
    ray: Annotated[str | None, typer.Option(help="For --in: a Ray cluster's address, or local")] = None
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite the output file")] = False
    line_breaks: Annotated[
        Literal["keep", "join", "auto"],
        typer.Option(help="For .txt: keep each line, join the lines of a paragraph, or detect wrapping"),
    ] = "auto"
    sheet_names: Annotated[
        bool, typer.Option("--sheet-names", help="For .xlsx: translate the names of sheets, too")
    ] = False
    redo_fuzzy: Annotated[bool, typer.Option("--redo-fuzzy", help="For .po: translate fuzzy entries again")] = False
    charset: Annotated[
        str, typer.Option(help="For texts and pages: their encoding, if it is not UTF-8 and they do not declare it")
    ] = ""
    keep_encoding: Annotated[
        bool, typer.Option("--keep-encoding", help="For texts and pages: write their own encoding, not UTF-8")
    ] = False
    paths: Annotated[
        str, typer.Option(help="For .json, .yaml, .toml: which values to translate: '$.menu.*, $..title'")
    ] = ""
    columns: Annotated[
        str, typer.Option(help="For .csv, .tsv: which columns to translate: 'text, title', or fill in: 'en=fr'")
    ] = ""
    glossary: Annotated[str, typer.Option(help="A file of terms (tsv or csv), or the name of a served glossary")] = ""
    memory: Annotated[
        str, typer.Option(help="A translation memory: a file of pairs (tmx or tsv), or a service's file; off: none")
    ] = ""
    memory_key: Annotated[str, typer.Option(help="Name of the API key whose memory it is, in a service's file")] = ""
    engine: Annotated[
        Literal["auto", "local", "llm"] | None,
        typer.Option(help="Which model translates, if INTERLINEAR_LLM is set", show_default=False),
    ] = None
    markup: Annotated[Literal["text", "html"], typer.Option("--format", help="html: treat each line as HTML")] = "text"
    bundles: Annotated[str | None, setting_option("bundles")] = None
    workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0: one per core")] = 0
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary of warnings")] = False

    def __post_init__(self) -> None:
        of_files = (self.sheet_names, self.redo_fuzzy, self.paths, self.columns, self.charset, self.keep_encoding)
        if not self.file and (any(of_files) or self.line_breaks != "auto"):
            options = "--sheet-names, --redo-fuzzy, --paths, --columns, --charset, --keep-encoding and --line-breaks"
            raise typer.BadParameter(f"{options} need --file")
        if self.in_ is not None:
            if self.out is None or self.file or self.replace:
                raise typer.BadParameter("--in needs --out, and takes neither --file nor --replace")
            return
        if self.column != "text" or self.ray:
            raise typer.BadParameter("--column and --ray need --in")
        if self.out and not self.file:
            raise typer.BadParameter("--out needs --file or --in; standard input is translated to standard output")
        if self.file and self.markup == "html":
            raise typer.BadParameter("--format is for standard input; a file's name decides its format")

    def command(self) -> Command:
        """What the translator of lines, documents or folders takes: options of the same name, and others converted."""
        from app.cli.offline_engine import Command
        from app.formats import FormatOptions

        given = vars(self)
        formats: Any = {name: given[name] for name in FormatOptions.__annotations__.keys() & given.keys()}
        same = {field.name: given[field.name] for field in fields(Command) if field.name in given}
        converted = {
            "markup": self.markup == "html",
            "format_options": {**formats, "encoding": "keep" if self.keep_encoding else "auto"},
            "out": Path(self.out) if self.out else None,
        }
        return Command(**{**same, **converted})
