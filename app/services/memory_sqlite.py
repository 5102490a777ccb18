"""Translation memories in one file of SQLite, which several processes on one machine may share.

A transaction is on the disk before it is acknowledged: WAL mode, with `synchronous=FULL`.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from app.errors import Unavailable
from app.services.memory_log import MAX_REMOVED, Change, Changes, Limits, MemoryFull, Scope, size_of
from app.settings import PREFIX, SettingsError
from app.text.memory_index import Pair

T = TypeVar("T")
_BUSY_TIMEOUT_S = 10.0
"""How long to wait for another process that writes."""
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
log = logging.getLogger(__name__)


class SQLiteLog:
    """The log in a file. One thread uses it, so that nothing waits for the disk on the event loop."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """Raises SettingsError if the file cannot be used."""
        self._path, self._limits = path, limits
        self._thread = ThreadPoolExecutor(1, "memory")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = self._thread.submit(self._open).result()
        except (OSError, sqlite3.Error, ValueError) as error:
            self._thread.shutdown()
            raise SettingsError(f"{PREFIX}TRANSLATION_MEMORY={path}: {error}") from None

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        with _Transaction(database):
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if found not in (0, _FORMAT):
                raise ValueError(f"its format is {found}; this version of the service reads {_FORMAT}")
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version={_FORMAT}")
        return database

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        await self._run(self._database.close)
        self._thread.shutdown()

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        return await self._run(lambda: self._versions(owner))

    async def changes(self, scope: Scope, since: int) -> Changes:
        return await self._run(lambda: self._changes(scope, since))

    async def put(self, scope: Scope, pairs: Sequence[tuple[str, Pair]]) -> int:
        return await self._run(lambda: self._put(scope, pairs))

    async def remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        return await self._run(lambda: self._remove(scope, text_ids))

    async def clear(self, scope: Scope) -> tuple[int, int]:
        return await self._run(lambda: self._clear(scope))

    async def _run(self, work: Callable[[], T]) -> T:
        """Raises Unavailable."""
        try:
            # Shielded: a client that leaves cannot stop a transaction, so nobody must believe that it did.
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))
        except (sqlite3.Error, OSError) as error:
            log.error("the translation memory %s: %s", self._path, error)
            raise Unavailable(f"The translation memory cannot be used: {error}") from None

    # ---- In the thread

    def _versions(self, owner: str) -> dict[tuple[str, str], int]:
        rows = self._database.execute("SELECT source, target, version FROM scopes WHERE owner = ?", (owner,))
        return {(source, target): version for source, target, version in rows}

    def _changes(self, scope: Scope, since: int) -> Changes:
        with _Transaction(self._database, "DEFERRED"):  # one state of the file for both queries
            found = self._find(scope)
            if found is None:
                return Changes(0, True, ())
            id, version, complete_since = found
            is_complete = since < complete_since or since == 0
            rows = self._database.execute(
                "SELECT version, text_id, source, target, created, author FROM pairs WHERE scope = ? AND version > ?"
                + " AND source IS NOT NULL" * is_complete
                + " ORDER BY version",
                (id, 0 if is_complete else since),
            )
            changes = [
                Change(version, text_id, None if source is None else Pair(source, target, created, author))
                for version, text_id, source, target, created, author in rows
            ]
        return Changes(version, is_complete, changes)

    def _put(self, scope: Scope, pairs: Sequence[tuple[str, Pair]]) -> int:
        with _Transaction(self._database):
            self._database.execute("INSERT OR IGNORE INTO scopes (owner, source, target) VALUES (?, ?, ?)", scope)
            id, version = self._next_version(scope)
            for text_id, pair in dict(pairs).items():
                self._count(-1, id, text_id)
                self._database.execute(
                    "INSERT OR REPLACE INTO pairs (scope, text_id, version, source, target, created, author)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (id, text_id, version, *pair),
                )
                self._database.execute("UPDATE totals SET pairs = pairs + 1, bytes = bytes + ?", (size_of(pair),))
            number, size = self._database.execute("SELECT pairs, bytes FROM totals").fetchone()
            if number > self._limits.pairs:
                raise MemoryFull("pairs")
            if size > self._limits.size:
                raise MemoryFull("bytes")
        return version

    def _remove(self, scope: Scope, text_ids: Sequence[str]) -> tuple[int, int]:
        with _Transaction(self._database):
            found = self._find(scope)
            if found is None:
                return 0, 0
            id, version, _ = found
            existing = [text_id for text_id in dict.fromkeys(text_ids) if self._count(-1, id, text_id)]
            if not existing:
                return 0, version
            id, version = self._next_version(scope)
            self._database.executemany(
                "UPDATE pairs SET version = ?, source = NULL, target = NULL, created = NULL, author = NULL"
                " WHERE scope = ? AND text_id = ?",
                [(version, id, text_id) for text_id in existing],
            )
            self._forget_removed(id, MAX_REMOVED)
        self._checkpoint()
        return len(existing), version

    def _clear(self, scope: Scope) -> tuple[int, int]:
        with _Transaction(self._database):
            found = self._find(scope)
            if found is None:
                return 0, 0
            id, version, _ = found
            rows = self._database.execute(
                "SELECT source, target FROM pairs WHERE scope = ? AND source IS NOT NULL", (id,)
            )
            sizes = [size_of(Pair(source, target)) for source, target in rows]
            if sizes:
                id, version = self._next_version(scope)
                self._database.execute("DELETE FROM pairs WHERE scope = ?", (id,))
                self._database.execute("UPDATE scopes SET complete_since = ? WHERE id = ?", (version, id))
                self._database.execute(
                    "UPDATE totals SET pairs = pairs - ?, bytes = bytes - ?", (len(sizes), sum(sizes))
                )
        self._checkpoint()
        return len(sizes), version

    def _find(self, scope: Scope) -> tuple[int, int, int] | None:
        """The scope's id, version, and the version from which on removals are known."""
        found: tuple[int, int, int] | None = self._database.execute(
            "SELECT id, version, complete_since FROM scopes WHERE owner = ? AND source = ? AND target = ?", scope
        ).fetchone()
        return found

    def _next_version(self, scope: Scope) -> tuple[int, int]:
        """Raises the version of a scope, and returns its id and the new version."""
        found: tuple[int, int] = self._database.execute(
            "UPDATE scopes SET version = version + 1 WHERE owner = ? AND source = ? AND target = ?"
            " RETURNING id, version",
            scope,
        ).fetchone()
        return found

    def _count(self, sign: int, id: int, text_id: str) -> bool:
        """Adds the pair to the totals, or with -1 takes it off. Returns whether there is one."""
        row = self._database.execute(
            "SELECT source, target FROM pairs WHERE scope = ? AND text_id = ? AND source IS NOT NULL", (id, text_id)
        ).fetchone()
        if row is None:
            return False
        self._database.execute(
            "UPDATE totals SET pairs = pairs + ?, bytes = bytes + ?", (sign, sign * size_of(Pair(*row)))
        )
        return True

    def _forget_removed(self, id: int, most: int) -> None:
        """Forgets the oldest removals of a scope beyond the last `most`."""
        row = self._database.execute(
            "SELECT version FROM pairs WHERE scope = ? AND source IS NULL ORDER BY version DESC LIMIT 1 OFFSET ?",
            (id, most),
        ).fetchone()
        if row:
            self._database.execute(
                "DELETE FROM pairs WHERE scope = ? AND source IS NULL AND version <= ?", (id, row[0])
            )
            self._database.execute("UPDATE scopes SET complete_since = ? WHERE id = ?", (row[0], id))

    def _checkpoint(self) -> None:
        """Overwrites the write-ahead log, so that an erased text is in no file any more, unless another process reads
        it at this moment: then the next one does."""
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


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


class _Transaction:
    """A context manager for one transaction, which an exception rolls back."""

    def __init__(self, database: sqlite3.Connection, kind: str = "IMMEDIATE") -> None:
        self._database, self._kind = database, kind

    def __enter__(self) -> None:
        self._database.execute(f"BEGIN {self._kind}")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._database.execute("COMMIT")
        finally:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
