"""`python -m app translate`: translates standard input or a file with its own engine, without HTTP.

Handles the terminal and how the command ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from app.cli.documents import output_path, read_document, translate_document, write_file
from app.cli.exit_codes import BROKEN_PIPE, INTERRUPTED
from app.cli.lines import translate_lines
from app.cli.offline_engine import Command, CommandError, Report, open_session, say
from app.engine.launch import Launch, WorkerProcess


def run(command: Command, launch: Launch = WorkerProcess) -> int:
    """Translates standard input to standard output, and returns the exit code."""
    try:
        return asyncio.run(_run(command, launch))
    except CommandError as error:
        say(str(error))
        return error.status
    except BrokenPipeError:
        # Python itself would flush at exit, and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run(command: Command, launch: Launch) -> int:
    report = Report(command.quiet)
    if command.file is None:
        async with open_session(command, launch) as session:
            is_shown = not command.quiet and not sys.stdout.isatty()
            with progress(os.fstat(0).st_size, is_shown) as advance:
                await translate_lines(partial(os.read, 0), _write, session, report, advance)
        return report.close()
    path = output_path(command.file, command.out, command.target, command.replace)
    document = read_document(command.file, command.target, command.source, command.format_options)
    if document.evident_encoding and not command.quiet:
        found = document.evident_encoding
        say(f"{command.file} is read as {found}, as its bytes show; --charset names another encoding")
    async with open_session(command, launch) as session:
        with progress(sum(passage.size for passage in document.passages), not command.quiet) as advance:
            content = await translate_document(document, session, report, advance)
    write_file(path, content)
    return report.close()


def _write(texts: Iterable[str]) -> None:
    """Flushes every time, so that each line read is answered at once."""
    sys.stdout.buffer.write("".join(texts).encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def progress(total: int, is_shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, if that is a terminal; `total` is 0 if unknown."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = [BarColumn(), DownloadColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total or None)
        yield lambda size: bar.advance(task, size)
