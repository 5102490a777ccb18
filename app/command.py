"""`python -m app translate`: standard input, or a file, through an engine of its own, without HTTP.

Knows windows of lines, files, the terminal and exit codes. How a text is translated is the translator's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.catalogue import load_catalogue, worker_count, worker_order
from app.engine import Engine
from app.errors import PairNotServed, ServiceError, Unavailable
from app.exits import CANNOT_SERVE, INTERRUPTED, NOBODY_READS, SOME_FAILED, UNREADABLE, WELL, WRONG_USAGE
from app.lines import Line, NotUTF8, read_lines
from app.link import Launch, WorkerProcess
from app.metrics import Metrics
from app.scheduler import Scheduler
from app.settings import Settings, SettingsError, load_settings
from app.translator import Translated, Translator
from model.bundle import BundleError
from model.decoding import Hypothesis

WINDOW_LINES, WINDOW_CHARS = 64, 4_000
"""Lines that are handed to the translator together."""
WINDOWS, WINDOWS_A_WORKER = 4, 3
"""Windows that are translated at once: more sentences than the workers hold, and few, since they end together."""
NAMED = 20
"""Texts that are named because they could not be translated; the others are counted."""
FOR_EVER_MS, NO_LIMIT = 10**12, 1 << 60

Translate = Callable[[Sequence[str]], Awaitable[list[Translated]]]


class CommandError(Exception):
    """Ends the command with a line on standard error and an exit code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Windows = asyncio.Queue[asyncio.Task[list[tuple[Line, Translated]]] | CommandError | None]
"""What is being translated, in the order of the lines; then how the input ended."""


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    source: str
    target: str
    bundles: Path | None = None
    workers: int = 0
    quiet: bool = False


@dataclass(frozen=True)
class Session:
    """An engine at work: what translates with it, and how many windows it takes to keep its workers busy."""

    translate: Translate
    at_once: int


class Report:
    """Says on standard error what went wrong: failures at once, warnings in a line at the end."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.texts = self.failed = self.warned = 0
        self._first = ""

    def add(self, name: str, done: Translated) -> None:
        """`name`: which text it was, such as "line 3"."""
        self.texts += 1
        if done.error:
            self.failed += 1
            if self.failed <= NAMED:
                say(f"{name} is not translated: {done.error.detail}")
        elif done.warnings:
            self.warned += 1
            self._first = self._first or f"{name}: {done.warnings[0]}"

    def close(self) -> int:
        """The exit code."""
        if self.failed > NAMED:
            say(f"{self.failed:,} of {self.texts:,} texts are not translated")
        if self.warned and not self.quiet:
            say(f"{self.warned:,} of {self.texts:,} texts have warnings. The first, {self._first}")
        return SOME_FAILED if self.failed else WELL


def say(message: str) -> None:
    print(f"interlinear: {message}", file=sys.stderr, flush=True)


def run(request: Request, launch: Launch = WorkerProcess) -> int:
    """Translates standard input to standard output; the exit code."""
    try:
        return asyncio.run(_run(request, launch))
    except CommandError as error:
        say(str(error))
        return error.status
    except BrokenPipeError:
        # Python itself would flush at the end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED


async def _run(request: Request, launch: Launch) -> int:
    report = Report(request.quiet)
    async with translating(request, launch) as session:
        size = os.fstat(0).st_size
        with progress(size, shown=not request.quiet and not sys.stdout.isatty()) as advance:
            await translate_lines(partial(os.read, 0), _write, session, report, advance)
    return report.close()


def _write(texts: Iterable[str]) -> None:
    """What is read at once shall be answered at once: flushed every time."""
    sys.stdout.buffer.write("".join(texts).encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()


@asynccontextmanager
async def translating(request: Request, launch: Launch) -> AsyncIterator[Session]:
    """An engine of our own, without the limits by which a service defends itself. Raises CommandError."""
    try:
        settings = settings_of(request)
        bundles = load_catalogue(settings)
        bundles.find(request.source, request.target)
        order = worker_order(settings, bundles)
    except (SettingsError, BundleError) as error:
        raise CommandError(CANNOT_SERVE, str(error)) from None
    except PairNotServed as error:
        raise CommandError(WRONG_USAGE, error.detail) from None
    scheduler: Scheduler[Hypothesis] = Scheduler(settings.queue_tokens)
    workers = worker_count(settings)
    engine = Engine(order, scheduler, Metrics(), launch, workers)
    translator = Translator(bundles, engine, settings)

    async def translate(texts: Sequence[str]) -> list[Translated]:
        try:
            items = (await translator.translate(texts, request.source, request.target)).items
        except ServiceError as error:  # all of them failed
            items = [Translated(None, None, None, error=error) for _ in texts]
        for item in items:
            if isinstance(item.error, Unavailable):
                raise CommandError(CANNOT_SERVE, item.error.detail)
        return items

    await engine.start()
    try:
        yield Session(translate, WINDOWS + WINDOWS_A_WORKER * workers)
    finally:
        await engine.stop()


def settings_of(request: Request) -> Settings:
    """The environment's, with what the command line says and without limits. Raises SettingsError."""
    chosen = {"bundles": request.bundles, "workers": request.workers or None}
    limits = {"max_text_chars": NO_LIMIT, "max_items": NO_LIMIT, "queue_tokens": NO_LIMIT, "deadline_ms": FOR_EVER_MS}
    return load_settings().model_copy(update={**{k: v for k, v in chosen.items() if v is not None}, **limits})


async def translate_lines(
    read: Callable[[int], bytes],
    write: Callable[[Iterable[str]], None],
    session: Session,
    report: Report,
    advance: Callable[[int], None] = lambda size: None,
) -> None:
    """Writes one line for each that is read, in order and as soon as it is there. Raises CommandError, BrokenPipeError.

    `advance` is told the bytes of what is done.
    """
    windows: Windows = asyncio.Queue(session.at_once)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_feed(read, session.translate, windows, tasks))
            while window := await windows.get():
                if isinstance(window, CommandError):
                    raise window
                done = await window
                write(_written(line, translated) for line, translated in done)
                for line, translated in done:
                    report.add(f"line {line.number}", translated)
                advance(sum(len(line.text.encode()) + len(line.end) for line, _ in done))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def _feed(read: Callable[[int], bytes], translate: Translate, windows: Windows, tasks: asyncio.TaskGroup) -> None:
    async def translated(window: Sequence[Line]) -> list[tuple[Line, Translated]]:
        return list(zip(window, await translate([line.text for line in window]), strict=True))

    try:
        async for batch in read_lines(read):
            for window in cut_into_windows(batch):
                await windows.put(tasks.create_task(translated(window)))
        await windows.put(None)
    except (OSError, NotUTF8) as error:
        await windows.put(CommandError(UNREADABLE, str(error)))


def cut_into_windows(batch: Sequence[Line]) -> Iterator[Sequence[Line]]:
    start, chars = 0, 0
    for number, line in enumerate(batch):
        if number > start and (number - start == WINDOW_LINES or chars + len(line.text) > WINDOW_CHARS):
            yield batch[start:number]
            start, chars = number, 0
        chars += len(line.text)
    if start < len(batch):
        yield batch[start:]


def _written(line: Line, done: Translated) -> str:
    return (line.text if done.text is None else done.text) + line.end


@contextlib.contextmanager
def progress(total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal; of an unknown `total`, 0, what is done."""
    if not shown or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = [BarColumn(), DownloadColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total or None)
        yield lambda size: bar.advance(task, size)
