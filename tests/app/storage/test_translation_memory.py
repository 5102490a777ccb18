"""Translation memories in use: their indexes are read on in turns, and leave memory when all take too much."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fakes import on_a_loop
from processor_time import least_seconds

from app.errors import InvalidFields, TooMuchText, Unavailable
from app.storage.memory_log import size_of
from app.storage.memory_sqlite import SQLiteLog
from app.storage.protocols import Change, Changes, MemorySize, Scope
from app.storage.translation_memory import MAX_BYTES_PER_PAIR, TranslationMemory
from app.text import memory_slots
from app.text.memory_index import Pair

ALICE, BOB = Scope("alice", "en", "fr"), Scope("bob", "en", "fr")


@asynccontextmanager
async def opened(file: Path, pairs: int = 1_000, size: int = 1 << 20) -> AsyncIterator[TranslationMemory]:
    memory = TranslationMemory(SQLiteLog(file, MemorySize(pairs, size)))
    await memory.start()
    yield memory
    await memory.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.sqlite"


def test_too_many_pairs_are_refused_before_one_is_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr("app.storage.translation_memory.normalise", looked.append)

    @on_a_loop
    async def check() -> None:
        async with opened(file, pairs=10, size=1_000) as memory:
            with pytest.raises(InvalidFields, match="limit in pairs"):
                await memory.put(ALICE, [(str(number), "x") for number in range(11)], "")
            with pytest.raises(InvalidFields, match="limit in bytes"):
                await memory.put(ALICE, [("a", "x" * 1_000)], "")
            assert looked == []
            assert (await memory.snapshot(ALICE)).version == 0

    check()


def test_long_work_takes_turns_with_short(file: Path) -> None:
    order: list[str] = []

    def work(name: str, steps: int) -> Iterator[None]:
        for _ in range(steps):
            time.sleep(0.002)
            yield
        order.append(name)

    @on_a_loop
    async def check() -> None:
        async with opened(file) as memory:
            await asyncio.gather(memory._in_steps("a", work("long", 100)), memory._in_steps("a", work("short", 3)))

    check()
    assert order == ["short", "long"]


def test_work_that_is_cancelled_ends(file: Path) -> None:
    steps: list[int] = []

    def work() -> Iterator[None]:
        for number in range(1_000_000):
            time.sleep(0.001)
            steps.append(number)
            yield

    @on_a_loop
    async def check() -> None:
        async with opened(file) as memory:
            task = asyncio.create_task(memory._in_steps("a", work()))
            while not steps:  # noqa: ASYNC110, a thread fills it
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await memory._in_steps("a", iter([None]))  # the thread is free
            assert len(steps) < 1_000_000

    check()


def test_indexes_of_the_owner_with_the_most_leave_memory_and_come_back(file: Path) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(file, pairs=4) as memory:
            scopes = [ALICE, ALICE._replace(target="de"), ALICE._replace(target="es"), BOB]
            for scope in scopes:
                await memory.put(scope, [("word " * (MAX_BYTES_PER_PAIR // 5), scope.target)], "")
            held = await memory.snapshot(scopes[0])
            for scope in scopes:
                assert [pair.target for pair in (await memory.snapshot(scope)).pairs()] == [scope.target]
            assert set(memory._loaded) == {*scopes[1:]}
            assert (await memory.snapshot(scopes[0])).memory is held.memory  # which a request still uses

    check()


def test_a_text_is_normalised_in_time_proportional_to_its_length() -> None:
    def seconds(marks: int) -> float:
        return least_seconds(lambda: memory_slots.normalise("a" + "\u0301\u0316" * marks))

    assert seconds(32_000) < 80 * seconds(2_000)


class FailingLog:
    """Has a pair for each of three changes, and can fail between the second and the third, which have one version."""

    limits, pause_s = MemorySize(1_000, 1 << 20), 0.0

    def __init__(self) -> None:
        self.version, self.fails = 1, False

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def versions(self, owner: str) -> dict[tuple[str, str], int]:
        return {("en", "fr"): self.version, ("en", "de"): 1}

    async def changes(self, scope: Scope, since: int) -> AsyncIterator[Changes]:
        def change(text: str, version: int) -> Change:
            return Change(version, memory_slots.text_id(text), Pair(text, text.upper()))

        if since == 0 or scope.target == "de":
            yield Changes(1, since == 0, [change("one", 1)])
        elif since == 1:
            yield Changes(2, False, [change("two", 2)])
            if self.fails:
                raise Unavailable("no")
            yield Changes(2, False, [change("three", 2)])


def test_what_a_failed_read_has_not_read_is_read_after_the_index_was_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    @on_a_loop
    async def check() -> None:
        log = FailingLog()
        memory = TranslationMemory(log)  # type: ignore[arg-type]
        held = await memory.snapshot(ALICE)
        log.version, log.fails = 2, True
        with pytest.raises(Unavailable):
            await memory.snapshot(ALICE)
        log.fails = False
        await memory.snapshot(ALICE._replace(target="de"))
        monkeypatch.setattr("app.storage.translation_memory.MAX_BYTES_PER_PAIR", 0)
        memory._evict()
        assert ALICE not in memory._loaded
        found = await memory.snapshot(ALICE)
        assert (found.memory is held.memory, found.exact("two"), found.exact("three")) == (True, "TWO", "THREE")
        await memory.stop()

    check()


def test_an_owner_with_much_work_has_as_many_turns_as_one_with_little(file: Path) -> None:
    order: list[str] = []

    def work(name: str) -> Iterator[None]:
        for _ in range(5):
            order.append(name)
            time.sleep(0.011)  # more than a turn
            yield

    @on_a_loop
    async def check() -> None:
        async with opened(file) as memory:
            tasks = [asyncio.create_task(memory._in_steps("many", work("many"))) for _ in range(20)]
            await asyncio.sleep(0)
            await memory._in_steps("one", work("one"))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    check()
    assert order.count("one") == 5
    assert order.count("many") < 20


def test_an_index_that_is_prepared_is_not_prepared_again(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(file) as memory:
            await memory.put(ALICE, [("One", "Un")], "")
            await memory.snapshot(ALICE, with_similar=True)
            monkeypatch.setattr(memory, "_in_steps", None)
            assert (await memory.snapshot(ALICE, with_similar=True)).fuzzy("One", 1)

    check()


def test_work_of_many_owners_leaves_threads_for_others(file: Path) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(file) as memory:
            ended = threading.Event()
            turns = [turn for number in range(40) for turn in memory.turns(f"owner {number}")[:2]]
            waiting = [asyncio.create_task(turn.run(ended.wait)) for turn in turns]
            await asyncio.sleep(0)
            assert await asyncio.wait_for(asyncio.to_thread(int), 60) == 0
            ended.set()
            await asyncio.gather(*waiting)

    check()


def test_pairs_are_measured_in_threads(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[threading.Thread]()

    def counted(pair: Pair) -> int:
        threads.add(threading.current_thread())
        return size_of(pair)

    for module in ("memory_log", "memory_sqlite"):
        monkeypatch.setattr(f"app.storage.{module}.size_of", counted)

    @on_a_loop
    async def check() -> None:
        async with opened(file) as memory:
            lengths: list[int] = []
            await memory.put(ALICE, [(f"Text {number}", "Texte") for number in range(600)], "", lengths.append)
            assert (len(lengths), max(lengths)) == (600, 8)

    check()
    assert threads
    assert threading.current_thread() not in threads


def test_a_text_that_is_too_long_is_refused_and_nothing_is_written(file: Path) -> None:
    def check_length(length: int) -> None:
        if length > 5:
            raise TooMuchText("long")

    @on_a_loop
    async def check() -> None:
        async with opened(file, pairs=2) as memory:
            with pytest.raises(TooMuchText):
                await memory.put(ALICE, [("One", "Un"), ("Three hundred", "300")], "", check_length)
            with pytest.raises(InvalidFields):
                await memory.put(ALICE, [("Three hundred", "300")] * 3, "", check_length)
            assert (await memory.snapshot(ALICE)).version == 0

    check()


def test_idle_indexes_of_others_leave_memory_if_the_largest_owner_has_one_alone(file: Path) -> None:
    @on_a_loop
    async def check() -> None:
        async with opened(file, pairs=4) as memory:
            others = [BOB, BOB._replace(target="de"), BOB._replace(target="es")]
            await memory.put(ALICE, [("word " * (5 * MAX_BYTES_PER_PAIR // 5), "x")], "")
            for scope in others:
                await memory.put(scope, [("One", "x")], "")
            for scope in (*others, ALICE):
                await memory.snapshot(scope)
            assert set(memory._loaded) == {others[-1], ALICE}

    check()
