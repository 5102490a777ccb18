"""Both logs of translation memories: in a file of SQLite, and in a real server of Redis."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Protocol

import pytest
from fakes import on_a_loop
from store_server import StoreServer

from app.errors import StoreUnavailable
from app.settings import SettingsError
from app.storage.memory_log import MAX_TOGETHER, parts_of, put_in_parts
from app.storage.memory_sqlite import SQLiteLog
from app.storage.memory_valkey import ValkeyLog
from app.storage.protocols import Change, Changes, MemoryLog, MemorySize, Scope, StoreFull
from app.storage.store_valkey import ValkeyStore
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
            log = SQLiteLog(tmp_path / "memory.sqlite", MemorySize(pairs, size))
            yield log
            await log.stop()

        yield in_file
        return
    with StoreServer(tmp_path) as server:

        @asynccontextmanager
        async def in_store(pairs: int = 100, size: int = 10_000) -> AsyncIterator[MemoryLog]:
            store = ValkeyStore(server.url)
            await store.start()
            yield ValkeyLog(store, MemorySize(pairs, size))
            await store.stop()

        yield in_store


async def put(log: MemoryLog, scope: Scope, pairs: Sequence[tuple[str, Pair]]) -> int:
    return await put_in_parts(log, scope, list(parts_of(dict(pairs))))


async def read(log: MemoryLog, scope: Scope, since: int) -> Changes:
    """All parts of the changes."""
    parts = [part async for part in log.changes(scope, since)]
    assert len({part[:2] for part in parts}) == 1
    return parts[0]._replace(changes=[change for part in parts for change in part.changes])


def test_another_instance_reads_on_from_a_version(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened() as log, opened() as other:
            first = await put(log, SCOPE, [ONE, TWO])
            assert await other.versions("alice") == {("en", "fr"): first}
            assert await other.versions("bob") == {}
            version, is_complete, changes = await read(other, SCOPE, 0)
            assert (version, is_complete) == (first, True)
            assert sorted((id, pair) for _, id, pair in changes) == [ONE, TWO]
            second = await put(other, SCOPE, [("1", Pair("One", "1"))])
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
            first = await put(log, SCOPE, [ONE, TWO])
            number, cleared = await log.clear(SCOPE)
            assert (number, await log.clear(SCOPE)) == (2, (0, cleared))
            last = await put(log, SCOPE, [TWO])
            assert first < cleared < last
            version, is_complete, changes = await read(log, SCOPE, first)
            assert (version, is_complete, [tuple(each) for each in changes]) == (last, True, [(last, *TWO)])
            assert (await read(log, SCOPE, cleared)).is_complete is False

    check()


def test_removals_beyond_the_last_are_forgotten(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("memory_sqlite", "memory_valkey"):
        monkeypatch.setattr(f"app.storage.{module}.MAX_REMOVED", 2)

    @on_a_loop
    async def check() -> None:
        async with opened() as log:
            first = await put(log, SCOPE, [(str(number), ONE[1]) for number in range(5)])
            for number in range(4):
                await log.remove(SCOPE, [str(number)])
            _, is_complete, changes = await read(log, SCOPE, first)
            assert (is_complete, [change.text_id for change in changes]) == (True, ["4"])

    check()


def test_a_full_log_writes_nothing(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=2) as log:
            version = await put(log, SCOPE, [ONE, TWO])
            with pytest.raises(StoreFull, match="pairs"):
                await put(log, Scope("bob", "en", "fr"), [("3", ONE[1])])
            assert await put(log, SCOPE, [ONE]) > version  # replaces one
            await log.remove(SCOPE, ["1"])
            await put(log, SCOPE, [("3", ONE[1])])
        async with opened(size=1_000) as log:
            with pytest.raises(StoreFull, match="bytes"):
                await put(log, SCOPE, [("4", Pair("Four", "Quatre " * 200))])
            assert sorted(id for _, id, _ in (await read(log, SCOPE, 0)).changes) == ["2", "3"]

    check()


def test_two_writers_at_once_lose_nothing(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened() as log, opened() as other:
            pairs = [(str(number), Pair(f"Text {number}", "x")) for number in range(40)]
            writers = [put((log, other)[number % 2], SCOPE, [pair]) for number, pair in enumerate(pairs)]
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
            with pytest.raises(StoreFull, match="pairs"):
                await put(log, SCOPE, pairs)
            assert await log.versions("alice") == {}
        async with opened(pairs=len(pairs), size=1 << 20) as log:
            version = await put(log, SCOPE, pairs)
            assert await put(log, SCOPE, pairs) > version  # replaces all
            found = await read(log, SCOPE, 0)
            assert sorted(change.text_id for change in found.changes) == [id for id, _ in pairs]

    check()


@pytest.mark.slow
def test_another_scope_is_written_while_a_long_write_goes_on(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=1 << 20, size=1 << 30) as log:
            long = asyncio.create_task(put(log, SCOPE, many(20 * MAX_TOGETHER)))
            while not await log.versions("alice"):  # noqa: ASYNC110, until the first part is written
                await asyncio.sleep(0)
            await put(log, Scope("bob", "en", "fr"), [ONE])
            assert not long.done()
            await long

    check()


def test_a_reader_keeps_one_state_while_others_write(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=1 << 20, size=1 << 30) as log, opened(pairs=1 << 20, size=1 << 30) as other:
            first = await put(log, SCOPE, many(MAX_TOGETHER))
            seen = list[Change]()
            async for part in log.changes(SCOPE, 0):
                seen += part.changes
                await put(other, SCOPE, [(seen[0].text_id, Pair("Text", "y")), ONE])
            assert {(change.version, change.pair and change.pair.target) for change in seen} == {(first, "x")}
            assert len(seen) == MAX_TOGETHER

    check()


def test_of_two_long_writes_at_once_a_refused_one_leaves_nothing(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        scopes, pairs = [SCOPE, Scope("bob", "en", "fr")], many(MAX_TOGETHER + 100)
        async with opened(pairs=2 * MAX_TOGETHER, size=1 << 20) as log:
            await put(log, SCOPE, pairs[:1])
            replaced = [(pairs[0][0], Pair("Text 0", "y")), *pairs[1:]]
            found = await asyncio.gather(*(put(log, scope, replaced) for scope in scopes), return_exceptions=True)
            assert any(isinstance(each, StoreFull) for each in found)
            held = [(await read(log, scope, 0)).changes for scope in scopes]
            for changes, result in zip(held, found, strict=True):
                assert len(changes) in ((0, 1) if isinstance(result, StoreFull) else (len(pairs),))
            assert [each.pair and each.pair.target for each in held[0] if each.text_id == pairs[0][0]] == ["y"]
            room = 2 * MAX_TOGETHER - sum(map(len, held))
            assert await put(log, Scope("carol", "en", "fr"), many(room))

    check()


def test_a_log_over_its_limit_takes_what_does_not_make_it_larger(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        pairs = many(MAX_TOGETHER + 1)
        async with opened(pairs=len(pairs), size=1 << 20) as log:
            await put(log, SCOPE, pairs)
        async with opened(pairs=10, size=1_000) as log:
            assert await put(log, SCOPE, pairs)
            assert await put(log, SCOPE, pairs[:1])
            with pytest.raises(StoreFull):
                await put(log, SCOPE, [("1", ONE[1])])

    check()


def test_parts_that_are_read_are_bounded_in_bytes(opened: Opened) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(pairs=100, size=1 << 24) as log:
            for number in range(6):
                await put(log, SCOPE, [(str(number), Pair(str(number), "x" * 700_000))])
            parts = [part.changes async for part in log.changes(SCOPE, 0)]
            assert max(map(len, parts)) == 2
            assert sorted(change.text_id for part in parts for change in part) == list("012345")

    check()


async def with_store(tmp_path: Path, check: Callable[[ValkeyLog], Awaitable[None]]) -> None:
    with StoreServer(tmp_path) as server:
        store = ValkeyStore(server.url)
        await store.start()
        await check(ValkeyLog(store, MemorySize(1 << 20, 1 << 30)))
        await store.stop()


@pytest.fixture
def parts_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.storage.memory_valkey.MAX_TOGETHER", 2)


@pytest.mark.usefixtures("parts_of_two")
def test_a_store_is_read_in_parts_that_end_with_a_version(tmp_path: Path) -> None:
    async def check(log: ValkeyLog) -> None:
        versions = [await put(log, SCOPE, many(3)), *[await put(log, SCOPE, [(id, ONE[1])]) for id in "abcde"]]
        parts = [part async for part in log.changes(SCOPE, 0)]
        assert {part[:2] for part in parts} == {(versions[-1], True)}
        assert [[change.version for change in part.changes] for part in parts] == [
            [versions[0]] * 3,
            versions[1:4],
            versions[4:],
        ]
        parts = [part async for part in log.changes(SCOPE, versions[1])]
        assert [len(part.changes) for part in parts] == [3, 1]
        assert not any(part.is_complete for part in parts)

    asyncio.run(with_store(tmp_path, check))


@pytest.mark.usefixtures("parts_of_two")
def test_what_changes_while_a_store_is_read_is_read_as_well(tmp_path: Path) -> None:
    async def check(log: ValkeyLog) -> None:
        for id in "abcdef":
            await put(log, SCOPE, [(id, ONE[1])])
        reading = log.changes(SCOPE, 0)
        parts = [await anext(reading)]
        await log.remove(SCOPE, ["a"])
        last = await put(log, SCOPE, [("b", TWO[1])])
        parts += [part async for part in reading]
        assert parts[-1].version == last
        found = {change.text_id: change.pair for part in parts for change in part.changes}
        assert found == {"a": None, "b": TWO[1]} | dict.fromkeys("cdef", ONE[1])

    asyncio.run(with_store(tmp_path, check))


@pytest.mark.usefixtures("parts_of_two")
def test_a_store_that_is_cleared_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    async def check(log: ValkeyLog) -> None:
        for id in "abcdef":
            await put(log, SCOPE, [(id, ONE[1])])
        reading = log.changes(SCOPE, 0)
        await anext(reading)
        await log.clear(SCOPE)
        await put(log, SCOPE, [("g", TWO[1])])
        assert [part async for part in reading] == [Changes(0, False, ())]

    asyncio.run(with_store(tmp_path, check))


@pytest.fixture
def file_log(tmp_path: Path) -> SQLiteLog:
    return SQLiteLog(tmp_path / "memory.sqlite", MemorySize(1 << 20, 1 << 30))


def holding(folder: Path, content: bytes) -> list[Path]:
    return [path for path in folder.iterdir() if content in path.read_bytes()]


def checkpoints(log: SQLiteLog) -> list[str]:
    """The checkpoints from now on."""
    found: list[str] = []
    trace = log._database.set_trace_callback
    log._writer.submit(lambda: trace(lambda each: found.append(each) if "checkpoint" in each else None)).result()
    return found


def test_a_removal_waits_for_no_reader_and_the_last_reader_overwrites_texts(
    file_log: SQLiteLog, tmp_path: Path
) -> None:
    @on_a_loop
    async def check() -> None:
        secrets = [(f"{number:032x}", Pair(f"secret {number}", "x")) for number in range(3 * MAX_TOGETHER)]
        await put(file_log, SCOPE, secrets)
        found = checkpoints(file_log)
        readers = [file_log.changes(SCOPE, 0), file_log.changes(SCOPE, 0)]
        for reader in readers:
            await anext(reader)
        for part in parts_of(dict(secrets)):
            await file_log.remove(SCOPE, [id for id, _ in part])
        assert found == []
        await readers[0].aclose()
        assert found == []
        await readers[1].aclose()
        await put(file_log, SCOPE, [TWO])  # the writer has done all before
        assert len(found) == 1
        assert holding(tmp_path, b"secret") == []
        await file_log.stop()

    check()


def test_a_checkpoint_that_fails_fails_no_reader(file_log: SQLiteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    @on_a_loop
    async def check() -> None:
        await put(file_log, SCOPE, [ONE, TWO])
        async for _ in file_log.changes(SCOPE, 0):
            await file_log.remove(SCOPE, ["1"])
            monkeypatch.setattr(file_log, "_checkpoint", fail)
        assert len((await read(file_log, SCOPE, 0)).changes) == 1
        assert file_log._has_erased_texts
        await file_log.stop()

    check()


def test_readers_one_after_another_open_the_file_once(file_log: SQLiteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[None] = []
    connect = file_log._connect

    def counted() -> sqlite3.Connection:
        opened.append(None)
        return connect()

    monkeypatch.setattr(file_log, "_connect", counted)

    @on_a_loop
    async def check() -> None:
        for id in "abc":
            version = await put(file_log, SCOPE, [(id, ONE[1])])
            assert (await read(file_log, SCOPE, version - 1)).changes == [Change(version, id, ONE[1])]
        await file_log.stop()

    check()
    assert len(opened) == 1


def test_what_is_cleared_is_deleted_though_the_client_leaves(file_log: SQLiteLog, tmp_path: Path) -> None:
    @on_a_loop
    async def check() -> None:
        await put(file_log, SCOPE, many(3 * MAX_TOGETHER))
        clearing = asyncio.create_task(file_log.clear(SCOPE))
        while not file_log._tasks:  # noqa: ASYNC110, until the pairs are being deleted
            await asyncio.sleep(0)
        clearing.cancel()
        await asyncio.gather(clearing, return_exceptions=True)
        assert clearing.cancelled()
        await asyncio.gather(*file_log._tasks)
        await file_log.stop()
        with closing(sqlite3.connect(tmp_path / "memory.sqlite")) as database:
            assert database.execute("SELECT pairs FROM totals").fetchone() == (0,)
            assert database.execute("SELECT COUNT(*) FROM pairs").fetchone() == (0,)

    check()


def test_pairs_are_deleted_in_parts_bounded_in_bytes(file_log: SQLiteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[bool] = []
    delete = file_log._delete_some_cleared

    def counted() -> bool:
        steps.append(delete())
        return steps[-1]

    monkeypatch.setattr(file_log, "_delete_some_cleared", counted)

    @on_a_loop
    async def check() -> None:
        pairs = [(str(number), Pair(str(number), "x" * 700_000)) for number in range(6)]
        await put(file_log, SCOPE, pairs)
        await file_log.clear(SCOPE)
        await file_log.stop()

    check()
    assert steps == [*[True] * 4, False]  # the last two: the scope itself, and that there is no other


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
        log = SQLiteLog(file, MemorySize(100, 10_000))
        version = await put(log, SCOPE, [ONE])
        command = [sys.executable, "-c", WRITER, str(file)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:  # noqa: ASYNC220
            assert writer.stdin and writer.stdout and writer.stdout.readline() == "writes\n"
            waiting = asyncio.create_task(put(log, SCOPE, [TWO]))
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
        file, limits = tmp_path / "memory.sqlite", MemorySize(1 << 20, 1 << 30)
        log = SQLiteLog(file, limits)
        await put(log, SCOPE, [*many(2 * MAX_TOGETHER), ONE])
        log._writer.submit(lambda: log._clear(SCOPE)).result()  # and no more
        await log.stop()
        log = SQLiteLog(file, limits)
        assert [*(await read(log, SCOPE, 0)).changes] == []
        await log.start()
        assert log._tasks  # which it does not wait for
        assert await put(log, SCOPE, [TWO]) > 2
        await asyncio.gather(*log._tasks)
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
            log = ValkeyLog(store, MemorySize(100, 10_000))
            await put(log, SCOPE, [ONE])
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
            SQLiteLog(path, MemorySize(100, 10_000))
