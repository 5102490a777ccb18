"""Background jobs: who may have their results, how many there may be, and what ends them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import pytest
from servers import WAIT_S

from app.errors import Overloaded, TooMuchText
from app.services.background_jobs import AT_ONCE, Errand, Errands


@dataclass
class Result:
    size: int


def running(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario()

    asyncio.run(within())


async def at_once() -> Result:
    return Result(10)


async def never() -> Result:
    await asyncio.Event().wait()
    raise AssertionError


async def until(errand: Errand[Result], *statuses: str) -> None:
    while errand.status not in statuses:  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_a_result_is_for_its_owner_with_its_key_and_for_nobody_else() -> None:
    async def scenario() -> None:
        many = Errands[Result](100)
        errand, other = many.begin("ann", 5, at_once), many.begin("ann", 5, at_once)
        assert many.find(errand.id, errand.key, "ann") is errand
        for id, key, owner in [
            (errand.id, errand.key, "bob"),
            (errand.id, errand.key, ""),
            (errand.id, other.key, "ann"),
            (errand.id, "", "ann"),
            (errand.id, "é\ud800", "ann"),
            ("é\ud800", errand.key, "ann"),
        ]:
            assert many.find(id, key, owner) is None
        await until(errand, "done")
        assert errand.result == Result(10)
        many.forget(errand)
        assert many.find(errand.id, errand.key, "ann") is None
        await many.close()

    running(scenario)


def test_no_two_errands_have_an_id_or_a_key_in_common() -> None:
    made = [Errand[Result]("", 0) for _ in range(100)]
    assert len({name for errand in made for name in (errand.id, errand.key)}) == 200


def test_a_failure_is_told_and_a_bug_is_logged_but_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def refused() -> Result:
        raise TooMuchText("It is too long.")

    async def broken() -> Result:
        raise KeyError("secret")

    async def scenario() -> None:
        many = Errands[Result](100)
        first, second = many.begin("", 5, refused), many.begin("", 5, broken)
        await until(first, "error")
        await until(second, "error")
        assert (first.error, first.result, first.size) == ("It is too long.", None, 0)
        assert second.error is not None
        assert "secret" not in second.error

    with caplog.at_level(logging.ERROR):
        running(scenario)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_one_waits_for_an_errand_as_long_as_it_takes_or_as_one_likes() -> None:
    async def refused() -> Result:
        raise TooMuchText("It is too long.")

    async def scenario() -> None:
        many = Errands[Result](100)
        for work, status in ((at_once, "done"), (refused, "error")):
            errand = many.begin("", 1, work)
            await errand.wait(60)
            assert errand.status == status
        errand = many.begin("", 1, never)
        await errand.wait(0.01)
        assert errand.status == "translating"
        await many.close()

    running(scenario)


def test_so_many_are_worked_on_and_the_others_wait() -> None:
    async def scenario() -> None:
        many = Errands[Result](100)
        begun = [many.begin("", 1, never) for _ in range(AT_ONCE + 2)]
        await until(begun[AT_ONCE - 1], "translating")
        await asyncio.sleep(0.01)
        assert [errand.status for errand in begun] == ["translating"] * AT_ONCE + ["queued"] * 2
        many.forget(begun[0])
        await until(begun[AT_ONCE], "translating")
        await many.close()
        assert begun[-1].status == "queued"

    running(scenario)


@pytest.mark.parametrize(("most_bytes", "most"), [(29, 1_000), (1_000, 2)])
def test_there_are_no_more_of_them_than_there_is_room_for(most_bytes: int, most: int) -> None:
    async def scenario() -> None:
        many = Errands[Result](most_bytes, most)
        first, second = many.begin("", 10, never), many.begin("", 10, at_once)
        await until(second, "done")
        with pytest.raises(Overloaded) as refused:
            many.begin("", 10, never)
        assert refused.value.retry_after_s
        many.forget(first)
        many.begin("", 10, never)
        await many.close()

    running(scenario)


def test_what_a_result_takes_is_counted_and_not_what_it_was_made_of() -> None:
    async def scenario() -> None:
        many = Errands[Result](100)
        errand = many.begin("", 95, at_once)
        with pytest.raises(Overloaded):
            many.begin("", 90, at_once)
        await until(errand, "done")
        many.begin("", 90, at_once)
        await many.close()

    running(scenario)


def test_the_oldest_results_that_have_lain_give_way_and_what_is_worked_on_does_not() -> None:
    async def scenario() -> None:
        many = Errands[Result](1_000, most=3, rest_s=0.0)
        working, older = many.begin("", 1, never), many.begin("", 1, at_once)
        await until(older, "done")
        newer = many.begin("", 1, at_once)
        await until(newer, "done")
        newest = many.begin("", 1, never)
        left = [many.find(errand.id, errand.key, "") for errand in (working, older, newer, newest)]
        assert left == [working, None, newer, newest]
        await many.close()

    running(scenario)


def test_no_result_gives_way_to_what_is_refused_all_the_same() -> None:
    async def scenario() -> None:
        many = Errands[Result](100, rest_s=0.0)
        many.begin("", 60, never)
        done = many.begin("", 1, at_once)
        await until(done, "done")
        with pytest.raises(Overloaded):
            many.begin("", 50, never)
        assert many.find(done.id, done.key, "") is done
        many.begin("", 40, never)
        assert many.find(done.id, done.key, "") is None
        await many.close()

    running(scenario)


def test_what_nobody_fetches_is_forgotten_and_what_is_not_done_by_then_is_ended() -> None:
    ended = asyncio.Event()

    async def slow() -> Result:
        try:
            return await never()
        finally:
            ended.set()

    async def scenario() -> None:
        many = Errands[Result](1_000, life_s=0.01)
        done, working = many.begin("", 1, at_once), many.begin("", 1, slow)
        await until(done, "done")
        while many.find(done.id, done.key, "") or many.find(working.id, working.key, ""):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await ended.wait()

    running(scenario)


def test_when_all_is_closed_no_task_is_left() -> None:
    async def scenario() -> None:
        many = Errands[Result](1_000)
        begun = [many.begin("", 1, work) for work in (never, at_once, never)]
        await until(begun[1], "done")
        await many.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(many.find(errand.id, errand.key, "") is None for errand in begun)

    running(scenario)
