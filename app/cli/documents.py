"""Translates a document on the command line: reads it, translates windows of passages, and writes it atomically.

Formats are in app.formats, engines in app.cli.offline_engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from app import formats
from app.cli.exit_codes import UNREADABLE, WRONG_USAGE
from app.cli.offline_engine import CommandError, Report, Session, file_errors, split_windows
from app.markup.passage import Passage
from app.markup.render import render_source
from app.translation.types import AUTO
from model.atomic_files import write_atomically


def output_path(path: Path, out: Path | None, target: str, replace: bool) -> Path:
    """The path for the translation of `path`: `out`, or "report.fr.docx" beside "report.docx". Raises CommandError."""
    output = out or path.with_name(formats.translated_name(path.name, target))
    if output.exists() and not replace:
        raise CommandError(UNREADABLE, f"{output} already exists; use --replace to overwrite it")
    if not output.parent.is_dir():
        raise CommandError(UNREADABLE, f"{output.parent} is not a folder")
    return output


def read_document(
    path: Path, target: str, source: str = AUTO, format_options: formats.FormatOptions | None = None
) -> formats.Document:
    """Raises CommandError."""
    with file_errors(path):
        try:
            return formats.read(path.name, path.read_bytes(), target, source=source, **(format_options or {}))
        except (formats.UnknownFormat, formats.WrongOption) as error:
            raise CommandError(WRONG_USAGE, str(error)) from None


async def translate_document(
    document: formats.Document, session: Session, report: Report, advance: Callable[[int], None]
) -> bytes:
    """The translated document. A passage that cannot be translated stays as it was, and is reported."""
    free_slots = asyncio.Semaphore(session.max_windows)

    async def translated(first: int, window: Sequence[Passage]) -> list[str]:
        async with free_slots:
            done = await session.translate([[passage] for passage in window])
        for location, item in zip(document.locations[first:], done, strict=False):
            report.add(location, item)
        advance(sum(passage.size for passage in window))
        return [render_source(p) if d.text is None else d.text for p, d in zip(window, done, strict=True)]

    tasks, first = [], 0
    try:
        async with asyncio.TaskGroup() as group:
            for window in split_windows(document.passages, lambda passage: passage.size):
                tasks.append(group.create_task(translated(first, window)))
                first += len(window)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return document.write([text for task in tasks for text in task.result()])


def write_file(path: Path, content: bytes) -> None:
    """Writes the file atomically. Raises CommandError."""
    with file_errors(path):
        write_atomically(path, content)
