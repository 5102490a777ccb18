"""Translation memories in use: their indexes are read on in turns, and leave memory when all take too much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fakes import on_a_loop

from app.errors import InvalidFields
from app.services.memory_log import Limits, Scope
from app.services.memory_sqlite import SQLiteLog
from app.services.translation_memory import MAX_BYTES_PER_PAIR, TranslationMemory
from app.text import memory_slots

ALICE, BOB = Scope("alice", "en", "fr"), Scope("bob", "en", "fr")


@asynccontextmanager
async def opened(file: Path, pairs: int = 1_000, size: int = 1 << 20) -> AsyncIterator[TranslationMemory]:
    memory = TranslationMemory(SQLiteLog(file, Limits(pairs, size)))
    await memory.start()
    yield memory
    await memory.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.sqlite"


def test_too_many_pairs_are_refused_before_one_is_looked_at(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr("app.services.translation_memory.normalise", looked.append)

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
            await asyncio.gather(memory._in_steps(work("long", 100)), memory._in_steps(work("short", 3)))

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
            task = asyncio.create_task(memory._in_steps(work()))
            while not steps:  # noqa: ASYNC110, a thread fills it
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await memory._in_steps(iter([None]))  # the thread is free
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
    def seconds(text: str) -> float:
        began = time.process_time()
        memory_slots.normalise(text)
        return time.process_time() - began

    short, long = ("a" + "\u0301\u0316" * count for count in (2_000, 32_000))
    seconds(short)
    assert min(seconds(long) for _ in range(3)) < 80 * min(seconds(short) for _ in range(3))
