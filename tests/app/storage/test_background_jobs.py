"""Background jobs: who may have their results, how many there may be, what ends them, and who takes them over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from servers import WAIT_S

from app.errors import Overloaded, TooMuchText
from app.storage import background_jobs
from app.storage.background_jobs import MAX_ATTEMPTS, MAX_CONCURRENT_JOBS, BackgroundJobs, Job, JobHandle, JobResult
from app.storage.store_local import LocalStore


def running(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario()

    asyncio.run(within())


async def work(task: bytes, attempt: int) -> JobResult:
    """Tasks are what to do."""
    match task:
        case b"refused":
            raise TooMuchText("It is too long.")
        case b"broken":
            raise KeyError("secret")
        case b"never" | b"never again":
            await asyncio.Event().wait()
    return JobResult(b"facts", b"r" * 10)


@asynccontextmanager
async def jobs(max_bytes: int = 100, store: LocalStore | None = None, **limits: Any) -> AsyncIterator[BackgroundJobs]:
    many = BackgroundJobs(store or LocalStore(), work, max_bytes, **limits)
    many.open()
    yield many
    await many.close()


async def found(many: BackgroundJobs, handle: JobHandle, owner: str = "") -> Job | None:
    return await many.find(handle.id, handle.key, owner)


async def until(many: BackgroundJobs, handle: JobHandle, *statuses: str) -> Job:
    while (job := await found(many, handle)) and job.status not in statuses:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert job
    return job


def test_result_requires_its_owner_and_its_key() -> None:
    async def scenario() -> None:
        async with jobs() as many:
            handle, other = await many.start("ann", b"task"), await many.start("ann", b"task")
            assert await many.find(handle.id, handle.key, "ann")
            for id, key, owner in [
                (handle.id, handle.key, "bob"),
                (handle.id, handle.key, ""),
                (handle.id, other.key, "ann"),
                (handle.id, "", "ann"),
                (handle.id, "é\ud800", "ann"),
                ("é\ud800", handle.key, "ann"),
            ]:
                assert await many.find(id, key, owner) is None
            job = await many.find(handle.id, handle.key, "ann")
            while job and not job.has_ended:
                job = await many.wait(job, WAIT_S)
            assert job
            assert (job.status, job.facts, await many.result(job)) == ("done", b"facts", b"r" * 10)
            await many.forget(job)
            assert await many.find(handle.id, handle.key, "ann") is None
            assert await many.wait(job, 0) is None

    running(scenario)


def test_every_job_has_its_own_id_and_key() -> None:
    async def scenario() -> None:
        async with jobs(10_000) as many:
            made = [await many.start("", b"task") for _ in range(100)]
            assert len({name for handle in made for name in handle}) == 200

    running(scenario)


def test_failure_is_reported_and_an_internal_error_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with jobs() as many:
            first, second = await many.start("", b"refused"), await many.start("", b"broken")
            job = await until(many, first, "error")
            assert (job.error, job.facts) == ("It is too long.", None)
            job = await until(many, second, "error")
            assert job.error is not None
            assert "secret" not in job.error

    with caplog.at_level(logging.ERROR):
        running(scenario)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_waiting_for_a_job_ends_with_it_or_after_the_timeout() -> None:
    async def scenario() -> None:
        async with jobs() as many:
            for task, status in ((b"task", "done"), (b"refused", "error"), (b"never", "translating")):
                job = await found(many, await many.start("", task))
                assert job
                job = await many.wait(job, 0.01 if task == b"never" else WAIT_S)
                assert job
                assert job.status == status

    running(scenario)


def test_a_limited_number_of_jobs_runs_and_the_others_wait() -> None:
    async def scenario() -> None:
        async with jobs() as many:
            begun = [await many.start("", b"never") for _ in range(MAX_CONCURRENT_JOBS + 2)]
            await until(many, begun[MAX_CONCURRENT_JOBS - 1], "translating")
            await asyncio.sleep(0.01)
            all_jobs = [await found(many, handle) for handle in begun]
            assert [job and job.status for job in all_jobs] == ["translating"] * MAX_CONCURRENT_JOBS + ["queued"] * 2
            assert all_jobs[0]
            await many.forget(all_jobs[0])
            await until(many, begun[MAX_CONCURRENT_JOBS], "translating")
        job = await found(many, begun[-1])
        assert job
        assert job.status == "queued"

    running(scenario)


@pytest.mark.parametrize(("max_bytes", "max_jobs"), [(14, 1_000), (1_000, 2)])
def test_number_of_jobs_is_limited(max_bytes: int, max_jobs: int) -> None:
    async def scenario() -> None:
        async with jobs(max_bytes, max_jobs=max_jobs) as many:
            first, second = await many.start("", b"never"), await many.start("", b"refused")
            await until(many, second, "error")
            with pytest.raises(Overloaded) as refused:
                await many.start("", b"never again")
            assert refused.value.retry_after_s
            job = await found(many, first)
            assert job
            await many.forget(job)
            await many.start("", b"never again")

    running(scenario)


def test_a_finished_job_counts_the_size_of_its_result() -> None:
    async def scenario() -> None:
        async with jobs() as many:
            handle = await many.start("", b"t" * 95)
            with pytest.raises(Overloaded):
                await many.start("", b"t" * 90)
            await until(many, handle, "done")
            await many.start("", b"t" * 90)

    running(scenario)


def test_old_results_are_evicted_and_running_jobs_are_not() -> None:
    async def scenario() -> None:
        async with jobs(1_000, max_jobs=3, min_age_s=0.0) as many:
            working, older = await many.start("", b"never"), await many.start("", b"task")
            await until(many, older, "done")
            newer = await many.start("", b"task")
            await until(many, newer, "done")
            newest = await many.start("", b"never")
            left = [await found(many, handle) is not None for handle in (working, older, newer, newest)]
            assert left == [True, False, True, True]

    running(scenario)


def test_refused_job_evicts_no_result() -> None:
    async def scenario() -> None:
        async with jobs(min_age_s=0.0) as many:
            await many.start("", b"never")
            done = await many.start("", b"task")
            await until(many, done, "done")
            with pytest.raises(Overloaded):
                await many.start("", b"t" * 96)
            assert await found(many, done)
            await many.start("", b"t" * 90)
            assert await found(many, done) is None

    running(scenario)


def test_unfetched_results_expire_and_unfinished_jobs_are_cancelled() -> None:
    async def scenario() -> None:
        async with jobs(1_000, lifetime_s=0.05, lease_s=0.03) as many:
            done, working = await many.start("", b"task"), await many.start("", b"never")
            await until(many, done, "done")
            while await found(many, done) or await found(many, working):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            while many._tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    running(scenario)


def test_closing_leaves_no_task() -> None:
    async def scenario() -> None:
        async with jobs(1_000) as many:
            begun = [await many.start("", task) for task in (b"never", b"task", b"never")]
            await until(many, begun[1], "done")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    running(scenario)


class SharedMemory(LocalStore):
    """A store that two instances in this process share."""

    is_shared = True


def test_another_instance_takes_over_what_one_leaves_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_jobs, "POLL_INTERVAL_S", 0.01)

    async def scenario() -> None:
        store, attempts = SharedMemory(), list[int]()

        async def translate(task: bytes, attempt: int) -> JobResult:
            attempts.append(attempt)
            return await work(b"never" if attempt == 1 else task, attempt)

        first, second = (BackgroundJobs(store, translate, 100) for _ in range(2))
        first.open()
        handle = await first.start("", b"task")
        await until(first, handle, "translating")
        second.open()
        await first.close()
        job = await until(second, handle, "done")
        assert (attempts, job.attempts) == ([1, 2], 2)
        await second.close()

    running(scenario)


def test_instance_that_comes_back_after_its_lease_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event loop was blocked for longer than the lease."""
    monkeypatch.setattr(background_jobs, "POLL_INTERVAL_S", 0.01)

    async def scenario() -> None:
        store, gate, ended = SharedMemory(), asyncio.Event(), asyncio.Event()

        async def slow(task: bytes, attempt: int) -> JobResult:
            await gate.wait()
            ended.set()
            return JobResult(b"", b"old")

        first = BackgroundJobs(store, slow, 100, lease_s=60)
        first.open()
        handle = await first.start("", b"task")
        await until(first, handle, "translating")
        await store.renew(first._kind, handle.id, first._holder, 0.0)
        second = BackgroundJobs(store, work, 100)
        second.open()
        job = await until(second, handle, "done")
        gate.set()
        await ended.wait()
        while first._tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert await second.result(job) == b"r" * 10
        for each in (first, second):
            await each.close()

    running(scenario)


def test_job_that_instances_die_of_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_jobs, "POLL_INTERVAL_S", 0.01)

    async def scenario() -> None:
        store = SharedMemory()
        async with jobs(store=store) as first:
            handle = await first.start("", b"never")
            await until(first, handle, "translating")
        for _ in range(MAX_ATTEMPTS - 1):
            async with jobs(store=store) as other:
                while not other._tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                await asyncio.sleep(0.01)
        async with jobs(store=store) as last:
            job = await until(last, handle, "error")
            assert job.error == "The service stopped while it translated this document."

    running(scenario)
