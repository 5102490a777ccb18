"""Shards through one session: read ahead in a thread, translated in windows across shards, written in order, published.

A shard that cannot be read does not stop the others.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, NamedTuple, Protocol

from app.bulk import places
from app.bulk.line_formats import LineWriter, read_lines
from app.bulk.places import Place, first_line
from app.bulk.rows import Row, Translated, row_windows, translate_rows
from app.bulk.shards import PARQUET, Shard
from app.cli.exit_codes import UNREADABLE
from app.cli.line_reader import read_ahead
from app.cli.offline_engine import WINDOW_CHARS, WINDOW_TEXTS, CommandError, Report, Session

FAILURES = "_failures"
"""The folder of the output with a file for each shard that has texts that could not be translated."""
MAX_PUBLISHING = 4
"""Finished shards that are flushed or uploaded while others are translated."""
UNREADABLE_ERRORS = (OSError, EOFError, ValueError, zlib.error, NotImplementedError)
"""What gzip and pyarrow raise for files that are damaged, or of a kind that they do not know."""


class Job(NamedTuple):
    """From where to where, and which column."""

    source: Place
    target: Place
    column: str
    check: Callable[[], None] = lambda: None
    """Raises CommandError, before a shard is published, if the output belongs to another command by now."""


class Finished(NamedTuple):
    """How a shard ended."""

    shard: Shard
    report: Report
    error: str = ""
    """Why its file cannot be read; then nothing is published."""


class _Batch(NamedTuple):
    rows: Sequence[Row]
    table: Any = None


class _End(NamedTuple):
    error: str = ""
    is_there: bool = False
    """Another run has published it meanwhile."""


class _Window(NamedTuple):
    rows: Sequence[Row]
    task: asyncio.Task[list[Translated]]


class _Target(Protocol):
    def write(self, row: Row, done: Translated) -> None: ...

    def close(self) -> None: ...


async def translate_shards(
    shards: Iterable[Shard],
    job: Job,
    session: Session,
    finish: Callable[[Finished], None],
    advance: Callable[[int], None] = lambda texts: None,
) -> None:
    """Translates shards in their order, whose iterator may block. Calls `finish` when one is published or unreadable,
    and `advance` with numbers of texts. Raises CommandError."""
    entries: asyncio.Queue[tuple[Shard, Report, _Batch | _Window | _End] | None] = asyncio.Queue()
    slots = _Slots(session.max_windows)

    async def translated(rows: Sequence[Row], shard: Shard, report: Report, cost: int) -> list[Translated]:
        try:
            return await translate_rows(rows, session, report, shard.output)
        finally:
            slots.release(cost)

    async def feed() -> None:
        report = Report(quiet=True, collect=True)
        async for shard, entry in read_ahead(_entries(shards, job)):
            entries.put_nowait((shard, report, entry))
            if isinstance(entry, _End):
                report = Report(quiet=True, collect=True)
                continue
            for rows in row_windows(entry.rows):
                cost = await slots.acquire(rows)
                task = tasks.create_task(translated(rows, shard, report, cost))
                entries.put_nowait((shard, report, _Window(rows, task)))
        entries.put_nowait(None)

    publishing = asyncio.Semaphore(MAX_PUBLISHING)

    async def publish(output: _Output, shard: Shard, report: Report) -> None:
        try:
            await asyncio.to_thread(output.publish, report)
        finally:
            publishing.release()
        finish(Finished(shard, report))

    output: _Output | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feed())
            while (item := await entries.get()) is not None:
                shard, report, entry = item
                if isinstance(entry, _Window):
                    done = await entry.task
                    advance(len(done))
                with _naming(job.target):
                    if isinstance(entry, _End) and (entry.error or entry.is_there):
                        if output:
                            output.discard()
                        output = None
                        finish(Finished(shard, report, entry.error))
                        continue
                    output = output or _Output(job, shard)
                    if isinstance(entry, _Batch):
                        output.expect(entry)
                    elif isinstance(entry, _Window):
                        output.write(entry.rows, done)
                    else:
                        await publishing.acquire()
                        tasks.create_task(publish(output, shard, report))
                        output = None
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        if output:
            output.discard()


def _entries(shards: Iterable[Shard], job: Job) -> Iterator[tuple[Shard, _Batch | _End]]:
    """What the input has, shard by shard. Leaves out shards that another run has finished meanwhile."""
    for shard in shards:
        if job.target.is_file(shard.output):
            yield shard, _End(is_there=True)
            continue
        try:
            with job.source.open(shard.path) as file:
                for batch in _read(file, shard, job.column):
                    yield shard, batch
            yield shard, _End()
        except UNREADABLE_ERRORS as error:
            yield shard, _End(first_line(error))


def _read(file: BinaryIO, shard: Shard, column: str) -> Iterator[_Batch]:
    if shard.suffix == PARQUET:
        from app.bulk.parquet_format import read_batches

        for table, rows in read_batches(file, shard, column):
            yield _Batch(rows, table)
    else:
        yield _Batch(())
        for rows in read_lines(file, shard, column):
            yield _Batch(rows)


class _Slots:
    """Bounds what is translated at once, by texts and characters, since small files make small windows."""

    def __init__(self, windows: int) -> None:
        self._free = asyncio.Semaphore(windows * WINDOW_TEXTS)

    async def acquire(self, rows: Sequence[Row]) -> int:
        """Waits for room for a window. Returns what to release; called by one task only."""
        chars = sum(len(text) for row in rows for text in row.texts)
        cost = min(WINDOW_TEXTS, max(len(rows), chars * WINDOW_TEXTS // WINDOW_CHARS))
        for _ in range(cost):
            await self._free.acquire()
        return cost

    def release(self, cost: int) -> None:
        for _ in range(cost):
            self._free.release()


class _Output:
    """The output of a shard, until it is published or discarded."""

    def __init__(self, job: Job, shard: Shard) -> None:
        self._job, self._shard = job, shard
        self._stack = ExitStack()
        self._file, self._publish = self._stack.enter_context(places.publishing(job.target, shard.output))
        self._target: _Target
        if shard.suffix == PARQUET:
            from app.bulk.parquet_format import ParquetTarget

            self._target = self._parquet = ParquetTarget(self._file)
        else:
            self._target = LineWriter(self._file, shard.compression)

    def expect(self, batch: _Batch) -> None:
        if batch.table is not None:
            self._parquet.expect(batch.table, len(batch.rows))

    def write(self, rows: Sequence[Row], done: Sequence[Translated]) -> None:
        for row, translated in zip(rows, done, strict=True):
            self._target.write(row, translated)

    def publish(self, report: Report) -> None:
        """Raises CommandError."""
        with self._stack, _naming(self._job.target):
            self._target.close()
            self._job.check()
            if report.failed:
                lines = [*report.failures, *(["..."] if report.failed > len(report.failures) else [])]
                path = f"{FAILURES}/{self._shard.output}.txt"
                places.write(self._job.target, path, "".join(f"{line}\n" for line in lines).encode())
            self._publish()

    def discard(self) -> None:
        self._stack.close()


@contextmanager
def _naming(place: Place) -> Iterator[None]:
    """Turns errors of the output into a CommandError that names it."""
    try:
        yield
    except OSError as error:
        raise CommandError(UNREADABLE, f"{place.name} cannot be written: {first_line(error)}") from None
