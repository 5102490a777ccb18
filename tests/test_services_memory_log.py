"""Both logs of translation memories: in a file of SQLite, and in a real server of Redis."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Protocol

import pytest
from fakes import on_a_loop
from store_server import StoreServer

from app.errors import StoreUnavailable
from app.services.memory_log import MAX_TOGETHER, Change, Changes, Limits, MemoryFull, MemoryLog, Scope
from app.services.memory_sqlite import SQLiteLog
from app.services.memory_valkey import ValkeyLog
from app.services.store_valkey import ValkeyStore
from app.settings import SettingsError
from app.text.memory_index import Pair

SCOPE = Scope("alice", "en", "fr")
ONE, TWO = ("1", Pair("One", "Un", 1.5, "alice")), ("2", Pair("Two", "Deux", 2.5, "alice"))


class Opened(Protocol):
    def __call__(self, pairs: int = 100, size: int = 10_000) -> AbstractAsyncContextManager[MemoryLog]: ...


@pytest.fixture(params=["sqlite", "valkey"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Opens a log, each time the same."""
    if request.param == "sqlite":

        @asynccontextmanager
        async def in_file(pairs: int = 100, size: int = 10_000) -> AsyncIterator[MemoryLog]:
            log = SQLiteLog(tmp_path / "memory.sqlite", Limits(pairs, size))
            yield log
            await log.stop()

        yield in_file
        return
    with StoreServer(tmp_path) as server:

        @asynccontextmanager
        async def in_store(pairs: int = 100, size: int = 10_000) -> AsyncIterator[MemoryLog]:
            store = ValkeyStore(server.url)
            await store.start()
            yield ValkeyLog(store, Limits(pairs, size))
            await store.stop()

        yield in_store


async def read(log: MemoryLog, scope: Scope, since: int) -> Changes:
    """All parts of the changes."""
    parts = [part async for part in log.changes(scope, since)]
    assert len({part[:2] for part in parts}) == 1
    return parts[0]._replace(changes=[change for part in parts for change in part.changes])


def test_another_instance_reads_on_from_a_version(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened() as log, opened() as other:
            first = await log.put(SCOPE, [ONE, TWO])
            assert await other.versions("alice") == {("en", "fr"): first}
            assert await other.versions("bob") == {}
            version, is_complete, changes = await read(other, SCOPE, 0)
            assert (version, is_complete) == (first, True)
            assert sorted((id, pair) for _, id, pair in changes) == [ONE, TWO]
            second = await other.put(SCOPE, [("1", Pair("One", "1"))])
            assert await log.remove(SCOPE, ["2", "3"]) == (1, third := (await log.versions("alice"))["en", "fr"])
            assert first < second < third
            version, is_complete, changes = await read(other, SCOPE, first)
            assert (version, is_complete) == (third, False)
            assert [tuple(change) for change in changes] == [(second, "1", Pair("One", "1")), (third, "2", None)]
            assert (await read(other, SCOPE, third)).changes in ([], ())

    check()


def test_who_missed_that_all_was_erased_reads_all_again(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened() as log:
            first = await log.put(SCOPE, [ONE, TWO])
            number, cleared = await log.clear(SCOPE)
            assert (number, await log.clear(SCOPE)) == (2, (0, cleared))
            last = await log.put(SCOPE, [TWO])
            assert first < cleared < last
            version, is_complete, changes = await read(log, SCOPE, first)
            assert (version, is_complete, [tuple(each) for each in changes]) == (last, True, [(last, *TWO)])
            assert (await read(log, SCOPE, cleared)).is_complete is False

    check()


def test_removals_beyond_the_last_are_forgotten(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("memory_sqlite", "memory_valkey"):
        monkeypatch.setattr(f"app.services.{module}.MAX_REMOVED", 2)

    @on_a_loop
    async def check() -> None:
        async with opened() as log:
            first = await log.put(SCOPE, [(str(number), ONE[1]) for number in range(5)])
            for number in range(4):
                await log.remove(SCOPE, [str(number)])
            _, is_complete, changes = await read(log, SCOPE, first)
            assert (is_complete, [change.text_id for change in changes]) == (True, ["4"])

    check()


def test_a_full_log_writes_nothing(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=2) as log:
            version = await log.put(SCOPE, [ONE, TWO])
            with pytest.raises(MemoryFull, match="pairs"):
                await log.put(Scope("bob", "en", "fr"), [("3", ONE[1])])
            assert await log.put(SCOPE, [ONE]) > version  # replaces one
            await log.remove(SCOPE, ["1"])
            await log.put(SCOPE, [("3", ONE[1])])
        async with opened(size=1_000) as log:
            with pytest.raises(MemoryFull, match="bytes"):
                await log.put(SCOPE, [("4", Pair("Four", "Quatre " * 200))])
            assert sorted(id for _, id, _ in (await read(log, SCOPE, 0)).changes) == ["2", "3"]

    check()


def test_two_writers_at_once_lose_nothing(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened() as log, opened() as other:
            pairs = [(str(number), Pair(f"Text {number}", "x")) for number in range(40)]
            writers = [(log, other)[number % 2].put(SCOPE, [pair]) for number, pair in enumerate(pairs)]
            versions = await asyncio.gather(*writers)
            assert len(set(versions)) == 40
            assert len((await read(log, SCOPE, 0)).changes) == 40

    check()


def many(count: int) -> list[tuple[str, Pair]]:
    return [(f"{number:032x}", Pair(f"Text {number}", "x")) for number in range(count)]


def test_what_is_written_in_parts_is_checked_before(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        pairs = many(2 * MAX_TOGETHER + 1)
        async with opened(pairs=len(pairs) - 1, size=1 << 20) as log:
            with pytest.raises(MemoryFull, match="pairs"):
                await log.put(SCOPE, pairs)
            assert await log.versions("alice") == {}
        async with opened(pairs=len(pairs), size=1 << 20) as log:
            version = await log.put(SCOPE, pairs)
            assert await log.put(SCOPE, pairs) > version  # replaces all
            found = await read(log, SCOPE, 0)
            assert sorted(change.text_id for change in found.changes) == [id for id, _ in pairs]

    check()


def test_another_scope_is_written_while_a_long_write_goes_on(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=1 << 20, size=1 << 30) as log:
            long = asyncio.create_task(log.put(SCOPE, many(20 * MAX_TOGETHER)))
            while not await log.versions("alice"):  # noqa: ASYNC110, until the first part is written
                await asyncio.sleep(0)
            await log.put(Scope("bob", "en", "fr"), [ONE])
            assert not long.done()
            await long

    check()


def test_a_reader_keeps_one_state_while_others_write(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=1 << 20, size=1 << 30) as log, opened(pairs=1 << 20, size=1 << 30) as other:
            first = await log.put(SCOPE, many(MAX_TOGETHER))
            seen = list[Change]()
            async for part in log.changes(SCOPE, 0):
                seen += part.changes
                await other.put(SCOPE, [(seen[0].text_id, Pair("Text", "y")), ONE])
            assert {(change.version, change.pair and change.pair.target) for change in seen} == {(first, "x")}
            assert len(seen) == MAX_TOGETHER

    check()


WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("writes", flush=True)
input()
database.execute("COMMIT")
"""


def test_readers_wait_for_no_writer_of_another_process(tmp_path: Path) -> None:
    @on_a_loop
    async def check() -> None:
        file = tmp_path / "memory.sqlite"
        log = SQLiteLog(file, Limits(100, 10_000))
        version = await log.put(SCOPE, [ONE])
        command = [sys.executable, "-c", WRITER, str(file)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:  # noqa: ASYNC220
            assert writer.stdin and writer.stdout and writer.stdout.readline() == "writes\n"
            waiting = asyncio.create_task(log.put(SCOPE, [TWO]))
            for _ in range(100):
                assert await log.versions("alice") == {("en", "fr"): version}
            assert len((await read(log, SCOPE, 0)).changes) == 1
            assert not waiting.done()
            writer.stdin.write("\n")
            writer.stdin.flush()
            assert await waiting > version
            assert await log.versions("alice") == {("en", "fr"): await waiting}
        await log.stop()

    check()


def test_what_a_killed_process_has_not_deleted_is_deleted_at_the_start(tmp_path: Path) -> None:
    @on_a_loop
    async def check() -> None:
        file, limits = tmp_path / "memory.sqlite", Limits(1 << 20, 1 << 30)
        log = SQLiteLog(file, limits)
        await log.put(SCOPE, [*many(2 * MAX_TOGETHER), ONE])
        log._writer.submit(lambda: log._clear(SCOPE)).result()  # and no more
        await log.stop()
        log = SQLiteLog(file, limits)
        assert [*(await read(log, SCOPE, 0)).changes] == []
        await log.start()
        assert await log.put(SCOPE, [TWO]) > 2
        await log.stop()
        with closing(sqlite3.connect(file)) as database:
            assert database.execute("SELECT pairs FROM totals").fetchone() == (1,)
            assert database.execute("SELECT COUNT(*) FROM pairs").fetchone() == (1,)
            assert database.execute("SELECT owner FROM scopes").fetchall() == [("alice",)]

    check()


def test_a_store_that_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    @on_a_loop
    async def check() -> None:
        with StoreServer(tmp_path) as server:
            store = ValkeyStore(server.url)
            await store.start()
            log = ValkeyLog(store, Limits(100, 10_000))
            await log.put(SCOPE, [ONE])
            server.kill()
            with pytest.raises(StoreUnavailable):
                await log.versions("alice")
            await store.stop()
            server.start()

    check()


def test_a_file_that_is_no_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but a text that is long enough" * 50)
    for path in (tmp_path / "text", tmp_path):
        with pytest.raises(SettingsError, match="INTERLINEAR_TRANSLATION_MEMORY="):
            SQLiteLog(path, Limits(100, 10_000))
