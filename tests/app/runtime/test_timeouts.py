"""Timeouts that share a timer behave like asyncio.timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from fakes import in_virtual_time

from app.runtime.timeouts import SharedTimeout


async def limited(shared: SharedTimeout, work: Awaitable[object]) -> object:
    with shared.limit():
        return await work


def test_task_over_the_limit_is_cancelled() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(limited(SharedTimeout(0.001), asyncio.Event().wait()))


def test_task_within_the_limit_is_not_cancelled() -> None:
    async def scenario() -> None:
        shared = SharedTimeout(0.005)
        assert await limited(shared, asyncio.sleep(0, "done")) == "done"
        await asyncio.sleep(0.01)  # past the end of a limit that is no more

    in_virtual_time(scenario())


def test_each_limit_has_its_full_length_whenever_it_begins() -> None:
    async def scenario() -> None:
        loop, shared = asyncio.get_running_loop(), SharedTimeout(0.02)
        ends: list[float] = []

        async def one(delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            began = loop.time()
            with pytest.raises(TimeoutError):
                await limited(shared, asyncio.Event().wait())
            ends.append(loop.time() - began)

        await asyncio.gather(*(one(delay_s / 1000) for delay_s in range(0, 20, 4)))
        assert len(ends) == 5
        assert min(ends) >= 0.019

    asyncio.run(scenario())


def test_finished_limit_does_not_end_the_others() -> None:
    async def scenario() -> list[object]:
        shared = SharedTimeout(0.01)
        works = [asyncio.sleep(0, "done"), asyncio.Event().wait(), asyncio.sleep(0, "done"), asyncio.Event().wait()]
        return await asyncio.gather(*(limited(shared, work) for work in works), return_exceptions=True)

    first, second, third, fourth = in_virtual_time(scenario())
    assert (first, third) == ("done", "done")
    assert isinstance(second, TimeoutError) and isinstance(fourth, TimeoutError)


def test_task_cancelled_elsewhere_stays_cancelled() -> None:
    async def scenario() -> bool:
        task = asyncio.create_task(limited(SharedTimeout(60), asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(scenario())


def test_task_cancelled_elsewhere_at_its_timeout_stays_cancelled() -> None:
    async def scenario() -> bool:
        shared = SharedTimeout(60)
        task = asyncio.create_task(limited(shared, asyncio.Event().wait()))
        await asyncio.sleep(0)
        (limit,) = shared._limits
        limit.expire()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(scenario())


def test_other_errors_pass_through() -> None:
    async def faulty() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(limited(SharedTimeout(1), faulty()))


def test_no_timer_runs_without_tasks() -> None:
    shared = SharedTimeout(60)
    asyncio.run(limited(shared, asyncio.sleep(0)))
    assert shared._timer is None
    assert asyncio.run(limited(shared, asyncio.sleep(0, "again"))) == "again"
