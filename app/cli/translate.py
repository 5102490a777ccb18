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

from app.cli.documents import output_of, read_document, translate_document, write_file
from app.cli.exit_codes import INTERRUPTED, NOBODY_READS
from app.cli.lines import translate_lines
from app.cli.offline_engine import CommandError, Report, Request, say, translating
from app.engine.launch import Launch, WorkerProcess


def run(request: Request, launch: Launch = WorkerProcess) -> int:
    """Translates standard input to standard output, and returns the exit code."""
    try:
        return asyncio.run(_run(request, launch))
    except CommandError as error:
        say(str(error))
        return error.status
    except BrokenPipeError:
        # Python itself would flush at exit, and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run(request: Request, launch: Launch) -> int:
    report = Report(request.quiet)
    if request.file is None:
        async with translating(request, launch) as session:
            shown = not request.quiet and not sys.stdout.isatty()
            with progress(os.fstat(0).st_size, shown) as advance:
                await translate_lines(partial(os.read, 0), _write, session, report, advance)
        return report.close()
    path = output_of(request.file, request.out, request.target, request.replace)
    document = await asyncio.to_thread(
        read_document, request.file, request.target, request.source, request.format_options
    )
    async with translating(request, launch) as session:
        with progress(sum(passage.size for passage in document.passages), not request.quiet) as advance:
            content = await translate_document(document, session, report, advance)
    write_file(path, content)
    return report.close()


def _write(texts: Iterable[str]) -> None:
    """Flushes every time, so that each line read is answered at once."""
    sys.stdout.buffer.write("".join(texts).encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def progress(total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, if that is a terminal; with `total` 0, unknown, it shows only what is done."""
    if not shown or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = [BarColumn(), DownloadColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total or None)
        yield lambda size: bar.advance(task, size)
