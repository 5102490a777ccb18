"""Background jobs: who may have their results, how many there may be, and what ends them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import pytest
from servers import WAIT_S

from app.errors import Overloaded, TooMuchText
from app.services.background_jobs import MAX_CONCURRENT_JOBS, BackgroundJob, BackgroundJobs


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


async def until(job: BackgroundJob[Result], *statuses: str) -> None:
    while job.status not in statuses:  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_result_requires_its_owner_and_its_key() -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](100)
        job, other = many.start("ann", 5, at_once), many.start("ann", 5, at_once)
        assert many.find(job.id, job.key, "ann") is job
        for id, key, owner in [
            (job.id, job.key, "bob"),
            (job.id, job.key, ""),
            (job.id, other.key, "ann"),
            (job.id, "", "ann"),
            (job.id, "é\ud800", "ann"),
            ("é\ud800", job.key, "ann"),
        ]:
            assert many.find(id, key, owner) is None
        await until(job, "done")
        assert job.result == Result(10)
        many.forget(job)
        assert many.find(job.id, job.key, "ann") is None
        await many.close()

    running(scenario)


def test_every_job_has_its_own_id_and_key() -> None:
    made = [BackgroundJob[Result]("", 0) for _ in range(100)]
    assert len({name for job in made for name in (job.id, job.key)}) == 200


def test_failure_is_reported_and_an_internal_error_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def refused() -> Result:
        raise TooMuchText("It is too long.")

    async def broken() -> Result:
        raise KeyError("secret")

    async def scenario() -> None:
        many = BackgroundJobs[Result](100)
        first, second = many.start("", 5, refused), many.start("", 5, broken)
        await until(first, "error")
        await until(second, "error")
        assert (first.error, first.result, first.size) == ("It is too long.", None, 0)
        assert second.error is not None
        assert "secret" not in second.error

    with caplog.at_level(logging.ERROR):
        running(scenario)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_waiting_for_a_job_ends_with_it_or_after_the_timeout() -> None:
    async def refused() -> Result:
        raise TooMuchText("It is too long.")

    async def scenario() -> None:
        many = BackgroundJobs[Result](100)
        for work, status in ((at_once, "done"), (refused, "error")):
            job = many.start("", 1, work)
            await job.wait(60)
            assert job.status == status
        job = many.start("", 1, never)
        await job.wait(0.01)
        assert job.status == "translating"
        await many.close()

    running(scenario)


def test_a_limited_number_of_jobs_runs_and_the_others_wait() -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](100)
        begun = [many.start("", 1, never) for _ in range(MAX_CONCURRENT_JOBS + 2)]
        await until(begun[MAX_CONCURRENT_JOBS - 1], "translating")
        await asyncio.sleep(0.01)
        assert [job.status for job in begun] == ["translating"] * MAX_CONCURRENT_JOBS + ["queued"] * 2
        many.forget(begun[0])
        await until(begun[MAX_CONCURRENT_JOBS], "translating")
        await many.close()
        assert begun[-1].status == "queued"

    running(scenario)


@pytest.mark.parametrize(("max_bytes", "max_jobs"), [(29, 1_000), (1_000, 2)])
def test_number_of_jobs_is_limited(max_bytes: int, max_jobs: int) -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](max_bytes, max_jobs)
        first, second = many.start("", 10, never), many.start("", 10, at_once)
        await until(second, "done")
        with pytest.raises(Overloaded) as refused:
            many.start("", 10, never)
        assert refused.value.retry_after_s
        many.forget(first)
        many.start("", 10, never)
        await many.close()

    running(scenario)


def test_a_finished_job_counts_the_size_of_its_result() -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](100)
        job = many.start("", 95, at_once)
        with pytest.raises(Overloaded):
            many.start("", 90, at_once)
        await until(job, "done")
        many.start("", 90, at_once)
        await many.close()

    running(scenario)


def test_old_results_are_evicted_and_running_jobs_are_not() -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](1_000, max_jobs=3, min_age_s=0.0)
        working, older = many.start("", 1, never), many.start("", 1, at_once)
        await until(older, "done")
        newer = many.start("", 1, at_once)
        await until(newer, "done")
        newest = many.start("", 1, never)
        left = [many.find(job.id, job.key, "") for job in (working, older, newer, newest)]
        assert left == [working, None, newer, newest]
        await many.close()

    running(scenario)


def test_refused_job_evicts_no_result() -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](100, min_age_s=0.0)
        many.start("", 60, never)
        done = many.start("", 1, at_once)
        await until(done, "done")
        with pytest.raises(Overloaded):
            many.start("", 50, never)
        assert many.find(done.id, done.key, "") is done
        many.start("", 40, never)
        assert many.find(done.id, done.key, "") is None
        await many.close()

    running(scenario)


def test_unfetched_results_expire_and_unfinished_jobs_are_cancelled() -> None:
    ended = asyncio.Event()

    async def slow() -> Result:
        try:
            return await never()
        finally:
            ended.set()

    async def scenario() -> None:
        many = BackgroundJobs[Result](1_000, lifetime_s=0.01)
        done, working = many.start("", 1, at_once), many.start("", 1, slow)
        await until(done, "done")
        while many.find(done.id, done.key, "") or many.find(working.id, working.key, ""):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await ended.wait()

    running(scenario)


def test_closing_leaves_no_task() -> None:
    async def scenario() -> None:
        many = BackgroundJobs[Result](1_000)
        begun = [many.start("", 1, work) for work in (never, at_once, never)]
        await until(begun[1], "done")
        await many.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(many.find(job.id, job.key, "") is None for job in begun)

    running(scenario)
