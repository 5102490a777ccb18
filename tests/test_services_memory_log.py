"""Both logs of translation memories: in a file of SQLite, and in a real server of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
from fakes import on_a_loop
from store_server import StoreServer

from app.errors import StoreUnavailable
from app.services.memory_log import Changes, Limits, MemoryFull, MemoryLog, Scope
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
