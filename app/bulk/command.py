"""The command: plans shards, checks the output, translates what is missing, and reports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from app.bulk import manifest, places
from app.bulk.line_formats import Unsuitable, check_lines
from app.bulk.pipeline import FAILURES, UNREADABLE_ERRORS, Finished, Job, translate_shards
from app.bulk.places import Place, first_line
from app.bulk.shards import PARQUET, Shard, format_of, line_shards, row_group_shards
from app.cli.exit_codes import INTERRUPTED, OK, SOME_FAILED, UNREADABLE, WRONG_USAGE
from app.cli.offline_engine import Command, CommandError, Prepared, Report, prepare, say, start_session
from app.engine.launch import Launch, WorkerProcess

PROGRESS_S = 10
FORMATS = ".txt, .tsv, .jsonl, these with .gz or .zst, and .parquet"


@dataclass(frozen=True)
class Bulk:
    """The arguments of the command, besides those of every translation."""

    source: str
    """A place."""
    target: str
    column: str = "text"


Translate = Callable[[list[Shard], Job, Prepared, Callable[[Finished], None], Callable[[int], None]], Awaitable[None]]
"""Translates shards; calls the functions as `translate_shards` does."""


def run(command: Command, bulk: Bulk, translate: Translate | None = None, launch: Launch = WorkerProcess) -> int:
    """Translates what is missing of the output, and returns the exit code."""
    try:
        return asyncio.run(_run(command, bulk, translate or partial(_translate_here, launch=launch)))
    except CommandError as error:
        say(str(error))
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED


async def _translate_here(
    shards: list[Shard],
    job: Job,
    prepared: Prepared,
    finish: Callable[[Finished], None],
    advance: Callable[[int], None],
    launch: Launch,
) -> None:
    async with start_session(prepared, launch) as session:
        await translate_shards(shards, job, session, finish, advance)


async def _run(command: Command, bulk: Bulk, translate: Translate) -> int:
    source, target = places.place(bulk.source), places.place(bulk.target)
    places.check_apart(source, target)
    prepared = prepare(command)
    shards = plan(source, bulk.column)
    made_with = manifest.describe(prepared, bulk.column)
    manifest.claim(target, made_with)
    sizes: dict[str, int] = {}
    for shard in shards:
        sizes[shard.path] = sizes.get(shard.path, 0) + shard.size
    manifest.check_inputs(target, sizes)

    there = {path for path, _ in target.files()}
    missing = [shard for shard in shards if shard.output not in there]
    failed_before = sum(f"{FAILURES}/{shard.output}.txt" in there for shard in shards if shard.output in there)
    progress = _Progress(shards, missing, command.quiet)
    report = Report(command.quiet)
    unreadable = 0

    def finish(done: Finished) -> None:
        nonlocal unreadable
        if done.error:
            unreadable += 1
            say(f"{done.shard.path}: {done.error}")
        report.merge(done.report)
        progress.finish(done.shard)

    if missing:
        job = Job(source, target, bulk.column, partial(manifest.check, target, made_with))
        await translate(missing, job, prepared, finish, progress.advance)
    if isinstance(target, places.Folder):
        target.drop_drafts()
    progress.close()
    status = report.close()
    if failed_before:
        say(f"{failed_before:,} files of earlier runs have texts that are not translated: see {target.name}/{FAILURES}")
    return UNREADABLE if unreadable else status or (SOME_FAILED if failed_before else OK)


def plan(source: Place, column: str) -> list[Shard]:
    """The shards of all files, in the order of their names. Raises CommandError if a file is not as it must be."""
    try:
        files = sorted(source.files())
        planned = [shard for path, size in files for shard in _shards_of(source, path, size, column)]
    except OSError as error:
        raise CommandError(UNREADABLE, f"{source.name} cannot be read: {first_line(error)}") from None
    skipped = len(files) - len({shard.path for shard in planned})
    if not planned:
        found = f"{skipped:,} files, but none" if skipped else "no file"
        raise CommandError(UNREADABLE, f"{source.name} has {found} to translate: {FORMATS}")
    if skipped:
        say(f"{skipped:,} files are skipped: hidden, or of other formats than {FORMATS}")
    return planned


def _shards_of(source: Place, path: str, size: int, column: str) -> Iterable[Shard]:
    formats = format_of(path)
    if formats is None:
        return ()
    suffix, compression = formats
    try:
        with source.open(path) as file:
            if suffix == PARQUET:
                return list(row_group_shards(path, _row_counts(file, column), size))
            check_lines(file, suffix, compression, column)
            return line_shards(path, suffix, compression, size)
    except Unsuitable as error:
        raise CommandError(WRONG_USAGE, f"{path} {error}") from None
    except UNREADABLE_ERRORS as error:
        raise CommandError(UNREADABLE, f"{path}: {first_line(error)}") from None


def _row_counts(file: Any, column: str) -> list[int]:
    try:
        from app.bulk.parquet_format import row_counts
    except ImportError:
        raise Unsuitable(places.NEEDS_PYARROW) from None
    return row_counts(file, column)


class _Progress:
    """Says every `PROGRESS_S` seconds how much is done and how long the rest may take."""

    def __init__(self, shards: list[Shard], missing: list[Shard], quiet: bool) -> None:
        self._quiet = quiet
        self._total, self._done = len(shards), len(shards) - len(missing)
        self._bytes, self._bytes_done = sum(shard.size for shard in missing), 0
        self._texts = 0
        self._started = self._said = monotonic()
        if self._done:
            self._say(f"{self._done:,} of {self._total:,} shards are there already")

    def advance(self, texts: int) -> None:
        self._texts += texts
        if (now := monotonic()) - self._said > PROGRESS_S:
            self._said = now
            self._say(self._line(now - self._started))

    def finish(self, shard: Shard) -> None:
        self._done += 1
        self._bytes_done += shard.size
        self.advance(0)

    def _line(self, seconds: float) -> str:
        line = f"{self._done:,} of {self._total:,} shards, {self._texts:,} texts, {self._texts / seconds:,.0f}/s"
        if self._bytes_done:
            line += f", about {_duration(seconds * (self._bytes / self._bytes_done - 1))} left"
        return line

    def close(self) -> None:
        seconds = monotonic() - self._started
        self._say(f"{self._done:,} of {self._total:,} shards, {self._texts:,} texts in {_duration(seconds)}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            say(line)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
