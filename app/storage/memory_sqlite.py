"""Translation memories in one file of SQLite, which several processes on one machine may share.

A transaction is on the disk before it is acknowledged: WAL mode, with `synchronous=FULL`.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from app.errors import Unavailable
from app.settings import PREFIX, SettingsError
from app.storage.memory_log import MAX_BYTES_TOGETHER, MAX_REMOVED, MAX_TOGETHER, PAIR_BYTES, check_growth, size_of
from app.storage.protocols import Change, Changes, MemorySize, Part, Scope
from app.text.memory_index import Pair

T = TypeVar("T")
_BUSY_TIMEOUT_S, _CHECKPOINT_TIMEOUT_MS = 10.0, 200
"""How long to wait for another process that writes; and when the log is to be overwritten, for one that reads."""
_CLEARED = "/"
"""Begins the owner of a scope whose pairs are being deleted; no name of a key contains a slash."""
_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS scopes (
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 0,
    complete_since INTEGER NOT NULL DEFAULT 0,
    UNIQUE (owner, source, target)
);
CREATE TABLE IF NOT EXISTS pairs (
    scope INTEGER NOT NULL REFERENCES scopes (id), text_id TEXT NOT NULL, version INTEGER NOT NULL,
    source TEXT, target TEXT, created REAL, author TEXT,
    PRIMARY KEY (scope, text_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pairs_by_version ON pairs (scope, version);
CREATE TABLE IF NOT EXISTS totals (pairs INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO totals SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM totals);
"""
"""A removed pair stays as a row without texts. `complete_since`: from which version on all removals are known."""
_BYTES = f"LENGTH(CAST(source AS BLOB)) + LENGTH(CAST(target AS BLOB)) + {PAIR_BYTES}"
_SIZE = f"SELECT {_BYTES} FROM pairs WHERE scope = ? AND source IS NOT NULL"
log = logging.getLogger(__name__)


class SQLiteLog:
    """The log in a file. One thread writes and another reads, so that nothing waits for the disk on the event loop, and
    no reader for a writer."""

    pause_s = 0.01  # SQLite lets other processes try again and again

    def __init__(self, path: Path, limits: MemorySize) -> None:
        """Raises SettingsError if the file cannot be used."""
        self._path, self.limits = path, limits
        self._writer, self._reader = ThreadPoolExecutor(1, "memory-writer"), ThreadPoolExecutor(1, "memory-reader")
        self._has_erased_texts = False
        """Whether the write-ahead log may have texts that were erased."""
        self._open_reads = 0
        self._idle: list[sqlite3.Connection] = []
        """One at most, for the next who reads changes."""
        self._tasks = set[asyncio.Task[None]]()
        """Delete what was cleared."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = self._writer.submit(self._open).result()
            self._reading = self._reader.submit(self._connect).result()
        except (OSError, sqlite3.Error, ValueError) as error:
            self._writer.shutdown()
            self._reader.shutdown()
            raise SettingsError(f"{PREFIX}TRANSLATION_MEMORY={path}: {error}") from None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)

    def _open(self) -> sqlite3.Connection:
        database = self._connect()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        with _transaction(database):
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if found not in (0, _FORMAT):
                raise ValueError(f"its format is {found}; this version of the service reads {_FORMAT}")
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version={_FORMAT}")
        return database

    async def start(self) -> None:
        self._delete_soon()  # what a killed process has left

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for database in (self._reading, *self._idle):
            await self._read(database.close)
        await self._write(self._database.close)
        self._reader.shutdown()
        self._writer.shutdown()

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        return await self._read(lambda: self._versions(owner))

    async def changes(self, scope: Scope, since: int) -> AsyncGenerator[Changes, None]:
        parts, is_last = self._changes(scope, since), False
        self._open_reads += 1
        try:
            while not is_last:
                part, is_last = await self._read(lambda: next(parts))
                yield part
        finally:
            try:
                if not is_last:
                    await self._read(parts.close)
            finally:
                self._open_reads -= 1
                if self._has_erased_texts and not self._open_reads:
                    self._writer.submit(self._checkpoint)  # for which no reader waits

    async def growth(self, scope: Scope, part: Part) -> tuple[MemorySize, MemorySize]:
        return await self._read(lambda: (self._growth(self._reading, scope, part)[0], self._totals(self._reading)))

    async def put(self, scope: Scope, part: Part) -> tuple[int, list[str]]:
        return await self._write(lambda: self._put(scope, part))

    async def remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        return await self._write(lambda: self._remove(scope, text_ids))

    async def clear(self, scope: Scope) -> tuple[int, int]:
        cleared = await self._write(lambda: self._clear(scope))
        await asyncio.shield(self._delete_soon())
        return cleared

    def _delete_soon(self) -> asyncio.Task[None]:
        """Deletes what was cleared; of its own, so that no client that leaves interrupts it."""
        task = asyncio.create_task(self._delete_cleared())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _delete_cleared(self) -> None:
        while await self._write(self._delete_some_cleared):  # noqa: ASYNC110  # nothing is waited for
            await asyncio.sleep(self.pause_s)

    async def _read(self, work: Callable[[], T]) -> T:
        return await self._run(self._reader, work)

    async def _write(self, work: Callable[[], T]) -> T:
        return await self._run(self._writer, work)

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Raises Unavailable."""
        try:
            # Shielded: a client that leaves cannot stop a transaction, so nobody must believe that it did.
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(thread, work))
        except (sqlite3.Error, OSError) as error:
            log.error("the translation memory %s: %s", self._path, error)
            raise Unavailable(f"The translation memory cannot be used: {error}") from None

    # ---- In the reading thread

    def _versions(self, owner: str) -> dict[tuple[str, str], int]:
        rows = self._reading.execute("SELECT source, target, version FROM scopes WHERE owner = ?", (owner,))
        return {(source, target): version for source, target, version in rows}

    def _changes(self, scope: Scope, since: int) -> Generator[tuple[Changes, bool], None, None]:
        """Each part, and whether it is the last one."""
        # A connection of its own, since it goes on with one state of the file while others ask for the newest.
        database = self._idle.pop() if self._idle else self._connect()
        try:
            with _transaction(database, "DEFERRED"):
                id, version, complete_since = self._find(database, scope)
                is_complete = not id or not since or since < complete_since
                rows = database.execute(
                    "SELECT version, text_id, source, target, created, author FROM pairs"
                    " WHERE scope = ? AND version > ?" + " AND source IS NOT NULL" * is_complete + " ORDER BY version",
                    (id, 0 if is_complete else since),
                )
                part = _together(rows, _row_size)
                while following := _together(rows, _row_size):
                    yield Changes(version, is_complete, [_change(*row) for row in part]), False
                    part = following
        except BaseException:
            database.close()
            raise
        if self._idle:
            database.close()
        else:
            self._idle.append(database)
        yield Changes(version, is_complete, [_change(*row) for row in part]), True

    def _growth(self, database: sqlite3.Connection, scope: Scope, part: Part) -> tuple[MemorySize, list[str]]:
        """How many pairs and bytes more there are if these pairs are put, and the ids that are new."""
        size, new = 0, list[str]()
        id, *_ = self._find(database, scope)
        for text_id, pair in part:
            row = database.execute(f"{_SIZE} AND text_id = ?", (id, text_id)).fetchone()
            size += size_of(pair) - (row[0] if row else 0)
            if not row:
                new.append(text_id)
        return MemorySize(len(new), size), new

    def _totals(self, database: sqlite3.Connection) -> MemorySize:
        return MemorySize(*database.execute("SELECT pairs, bytes FROM totals").fetchone())

    # ---- In the writing thread

    def _put(self, scope: Scope, part: Part) -> tuple[int, list[str]]:
        with _transaction(self._database):
            self._database.execute("INSERT OR IGNORE INTO scopes (owner, source, target) VALUES (?, ?, ?)", scope)
            growth, new = self._growth(self._database, scope, part)
            check_growth(self.limits, self._totals(self._database), *growth)
            self._add_to_totals(*growth)
            id, version = self._next_version(scope)
            self._database.executemany(
                "INSERT OR REPLACE INTO pairs (scope, text_id, version, source, target, created, author)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(id, text_id, version, *pair) for text_id, pair in part],
            )
        return version, new

    def _remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        with _transaction(self._database):
            id, version, _ = self._find(self._database, scope)
            sizes = {
                text_id: row[0]
                for text_id in dict.fromkeys(text_ids)
                if (row := self._database.execute(f"{_SIZE} AND text_id = ?", (id, text_id)).fetchone())
            }
            if not sizes:
                return 0, version
            id, version = self._next_version(scope)
            self._add_to_totals(-len(sizes), -sum(sizes.values()))
            self._database.executemany(
                "UPDATE pairs SET version = ?, source = NULL, target = NULL, created = NULL, author = NULL"
                " WHERE scope = ? AND text_id = ?",
                [(version, id, text_id) for text_id in sizes],
            )
            self._forget_removed(id)
        self._checkpoint()
        return len(sizes), version

    def _clear(self, scope: Scope) -> tuple[int, int]:
        """Gives the scope's pairs to an owner that no key has, to be deleted in parts."""
        with _transaction(self._database):
            id, version, _ = self._find(self._database, scope)
            (number,) = self._database.execute(
                "SELECT COUNT(*) FROM pairs WHERE scope = ? AND source IS NOT NULL", (id,)
            ).fetchone()
            if number:
                version += 1
                self._database.execute("UPDATE scopes SET owner = ? WHERE id = ?", (f"{_CLEARED}{id}", id))
                self._database.execute(
                    "INSERT INTO scopes (owner, source, target, version, complete_since) VALUES (?, ?, ?, ?, ?)",
                    (*scope, version, version),
                )
        return number, version

    def _delete_some_cleared(self) -> bool:
        """Deletes pairs of a cleared scope, if there is one. Returns whether there may be more."""
        with _transaction(self._database):
            found = self._database.execute(
                "SELECT id FROM scopes WHERE owner >= ? AND owner < ?", (_CLEARED, chr(ord(_CLEARED) + 1))
            ).fetchone()
            if found is None:
                return False
            rows = _together(
                self._database.execute(f"SELECT text_id, {_BYTES} FROM pairs WHERE scope = ?", found),
                lambda row: row[1] or 0,
            )
            sizes = [size for _, size in rows if size is not None]
            self._add_to_totals(-len(sizes), -sum(sizes))
            self._database.executemany(
                "DELETE FROM pairs WHERE scope = ? AND text_id = ?", [(*found, text_id) for text_id, _ in rows]
            )
            if not rows:
                self._database.execute("DELETE FROM scopes WHERE id = ?", found)
        if not rows:
            self._checkpoint()
        return True

    def _find(self, database: sqlite3.Connection, scope: Scope) -> tuple[int, int, int]:
        """The scope's id, version, and the version from which on removals are known; zeros if it never had a pair."""
        found: tuple[int, int, int] | None = database.execute(
            "SELECT id, version, complete_since FROM scopes WHERE owner = ? AND source = ? AND target = ?", scope
        ).fetchone()
        return found or (0, 0, 0)

    def _next_version(self, scope: Scope) -> tuple[int, int]:
        """Raises the version of a scope, and returns its id and the new version."""
        found: tuple[int, int] = self._database.execute(
            "UPDATE scopes SET version = version + 1 WHERE owner = ? AND source = ? AND target = ?"
            " RETURNING id, version",
            scope,
        ).fetchone()
        return found

    def _add_to_totals(self, number: int, size: int) -> None:
        self._database.execute("UPDATE totals SET pairs = pairs + ?, bytes = bytes + ?", (number, size))

    def _forget_removed(self, id: int) -> None:
        """Forgets the oldest removals of a scope beyond the last MAX_REMOVED."""
        row = self._database.execute(
            "SELECT version FROM pairs WHERE scope = ? AND source IS NULL ORDER BY version DESC LIMIT 1 OFFSET ?",
            (id, MAX_REMOVED),
        ).fetchone()
        if row:
            self._database.execute(
                "DELETE FROM pairs WHERE scope = ? AND source IS NULL AND version <= ?", (id, row[0])
            )
            self._database.execute("UPDATE scopes SET complete_since = ? WHERE id = ?", (row[0], id))

    def _checkpoint(self) -> None:
        """Overwrites the write-ahead log, so that an erased text is in no file any more. If somebody is reading it now,
        it is overwritten when that read ends, or at the next deletion."""
        self._has_erased_texts = True
        if self._open_reads:
            return
        self._database.execute(f"PRAGMA busy_timeout={_CHECKPOINT_TIMEOUT_MS}")
        try:
            (self._has_erased_texts, *_) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._database.execute(f"PRAGMA busy_timeout={round(1000 * _BUSY_TIMEOUT_S)}")


def _together(rows: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """The next rows, as many as are read or deleted in one step."""
    taken, total = list[T](), 0
    for row in rows:
        taken.append(row)
        total += size(row)
        if len(taken) == MAX_TOGETHER or total >= MAX_BYTES_TOGETHER:
            break
    return taken


def _row_size(row: tuple[Any, ...]) -> int:
    return sum(len(text) for text in row[2:4] if text)


def _change(version: int, text_id: str, source: str | None, target: str, created: float, author: str) -> Change:
    return Change(version, text_id, None if source is None else Pair(source, target, created, author))


def read_memory(path: Path, owner: str) -> dict[tuple[str, str], list[Pair]]:
    """The pairs of an owner in a file that a service may be using, by source and target. Raises ValueError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_TIMEOUT_S)) as file:
            (found,) = file.execute("PRAGMA user_version").fetchone()
            if found != _FORMAT:
                raise ValueError("it is no translation memory of this version of the service")
            rows = file.execute(
                "SELECT scopes.source, scopes.target, pairs.source, pairs.target, created, author"
                " FROM pairs JOIN scopes ON scopes.id = scope"
                " WHERE owner = ? AND pairs.source IS NOT NULL ORDER BY pairs.version, text_id",
                (owner,),
            )
            pairs: dict[tuple[str, str], list[Pair]] = {}
            for source, target, *pair in rows:
                pairs.setdefault((source, target), []).append(Pair(*pair))
            return pairs
    except sqlite3.Error as error:
        raise ValueError(str(error)) from None


@contextmanager
def _transaction(database: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """A context for one transaction, which an exception rolls back."""
    database.execute(f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")
