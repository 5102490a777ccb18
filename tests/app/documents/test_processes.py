"""Documents are read and written in processes of their own, within budgets that the kernel enforces."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from servers import becomes

from app import formats
from app.documents.messages import (
    BASE_BYTES,
    BASE_WORK,
    PDF_BASE_WORK,
    QUICK_WORK,
    SMALL_BYTES,
    Budget,
    File,
    Read,
    Texts,
    Write,
    WriteReviewed,
    budget_of,
)
from app.documents.processes import DocumentProcesses
from app.documents.worker import MAX_TAGS
from app.errors import DeadlinePassed, InvalidFields, Unavailable
from app.formats.units import escape
from app.markup.passage import Passage
from app.markup.render import render_source
from app.runtime.child_process import ChildProcess
from app.runtime.process_memory import proportional_set_size
from app.settings import Settings
from app.translation.documents import document_file, in_time, open_document
from benchmarks.slow_files import BOUND_WORK
from tests.app.formats.test_ten_of_a_kind import KINDS, Draw

pytestmark = pytest.mark.slow

WAIT_S = 600.0
"""Until what hangs fails; beside busy processes, each start of a process takes ten seconds."""
TEXT = b"Hello.\n\nHow are you?\n"


def file(content: bytes = TEXT, name: str = "a.txt") -> File:
    return File(name, content, "fr", "en", 50_000)


def hostile() -> ChildProcess:
    return ChildProcess("hostile_document_worker")


@pytest.fixture(autouse=True)
def _find_test_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "support"), prepend=os.pathsep)


def run(work: Callable[[DocumentProcesses], Awaitable[None]], launch: Callable[[], ChildProcess] | None = None) -> None:
    async def within_time() -> None:
        processes = DocumentProcesses(launch) if launch else DocumentProcesses()
        try:
            async with asyncio.timeout(WAIT_S):
                await work(processes)
        finally:
            await processes.stop()
        assert processes.pids() == []

    asyncio.run(within_time())


async def read(processes: DocumentProcesses, one: File, owner: str = "a") -> Texts:
    answer = await processes.run(Read(one), owner)
    assert isinstance(answer, Texts)
    return answer


async def reading_for_ever(processes: DocumentProcesses) -> tuple[int, asyncio.Task[Texts]]:
    """The process, and the task that it is at."""
    await read(processes, file())
    [pid] = processes.pids()
    task = asyncio.create_task(read(processes, file(b"loop")))
    await asyncio.sleep(0.05)
    return pid, task


async def same_again(processes: DocumentProcesses, one: File, owner: str = "a") -> bytes:
    """The document, written with the source of each text."""
    texts = await read(processes, one, owner)
    passages = [Passage(unit.text, unit.protected, unit.tags, escape, terms=unit.terms) for unit in texts.units]
    answer = await processes.run(Write(one, [render_source(passage) for passage in passages]), owner)
    assert not isinstance(answer, Texts)
    return answer.content


SAMPLES = {
    "a.txt": "One.\r\n\r\nTwo <b> & three.\ufdd01\ufdd1\r\n",
    "a.md": "# One *two*\n\n- [three](http://x.example/?a=1&b=2) `code`\n",
    "a.html": '<p title="Tip &amp; trick">Press <b>Save</b>&nbsp;<code>F5</code> <img alt="A picture"> now.</p>',
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i>\nyou.\n",
    "a.json": '{"a": "Hello {name}, you have {n, plural, one {# file} other {# files}}.", "b": ["x"]}',
    "a.yaml": "top: {a: Hello there, b: 'It''s %s'}\n",
    "a.xml": '<resources><string name="a">It\\\'s <b>bold</b></string></resources>',
    "a.properties": "a=It''s {0}\nb=Hello there\n",
}


def test_unchanged_texts_leave_a_document_as_it_is() -> None:
    async def work(processes: DocumentProcesses) -> None:
        for name, content in SAMPLES.items():
            assert await same_again(processes, file(content.encode(), name)) == content.encode(), name

    run(work)


def test_a_process_writes_documents_of_each_kind_as_the_library_does() -> None:
    async def work(processes: DocumentProcesses) -> None:
        for name, (make, _) in KINDS.items():
            content, _ = make(Draw(1))
            one = file(content, name)
            one = msgspec.structs.replace(one, options=(("columns", "text"),) if name == "a.csv" else ())
            options: Any = dict(one.options)
            found = formats.read(name, content, "fr", 50_000, "en", **options)
            expected = found.write([render_source(passage) for passage in found.passages])
            assert await same_again(processes, one) == expected, name

    run(work)


def test_what_takes_too_much_or_crashes_is_refused_and_the_next_document_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.documents.messages.BASE_WORK", 500)
    refused = {
        b"loop": "#/file: The file takes too much work",
        b"backtrack": "#/file: The file takes too much work",
        b"fill": "#/file: The file takes too much memory",
        b"crash": "does not survive it",
    }

    async def work(processes: DocumentProcesses) -> None:
        for content, message in refused.items():
            await read(processes, file())
            [before] = processes.pids()
            with pytest.raises(InvalidFields, match=message):
                await read(processes, file(content))
            assert await same_again(processes, file()) == TEXT
            assert processes.pids() != [before]

    run(work, hostile)


def test_time_without_an_answer_is_another_error_than_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.documents.processes._MAX_WAIT_S", 0.1)

    async def work(processes: DocumentProcesses) -> None:
        with pytest.raises(InvalidFields, match="not read or written within 30 minutes on this machine"):
            await read(processes, file(b"loop"))

    run(work, hostile)


def test_a_document_survives_the_end_of_its_process(tmp_path: Path) -> None:
    async def work(processes: DocumentProcesses) -> None:
        given = file(f"die once {tmp_path / 'died'}".encode())
        with pytest.raises(RuntimeError, match="FileExistsError"):  # it was read a second time
            await read(processes, given)
        texts = await read(processes, file())
        os.kill(processes.pids()[0], 9)
        answer = await processes.run(Write(file(), [unit.text for unit in texts.units]), "a")
        assert not isinstance(answer, Texts) and answer.content == TEXT

    run(work, hostile)


def test_too_deep_recursion_is_refused_and_an_error_of_ours_is_raised() -> None:
    async def work(processes: DocumentProcesses) -> None:
        with pytest.raises(InvalidFields, match="nested too deeply"):
            await read(processes, file(b"recurse"))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await read(processes, file(b"fail"))

    run(work, hostile)


def test_work_ends_when_its_task_is_cancelled() -> None:
    async def work(processes: DocumentProcesses) -> None:
        pid, task = await reading_for_ever(processes)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while is_running(pid):  # noqa: ASYNC110  # a process tells nobody
            await asyncio.sleep(0.01)
        assert await same_again(processes, file()) == TEXT

    run(work, hostile)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_stopping_ends_what_a_process_does() -> None:
    async def work(processes: DocumentProcesses) -> None:
        pid, task = await reading_for_ever(processes)
        task.cancel()
        await asyncio.wait([task])
        await processes.stop()
        assert not is_running(pid)

    run(work, hostile)


def test_a_process_ends_with_the_service() -> None:
    child = ChildProcess("app.documents.worker")
    child.end.close()
    assert child.wait() == "ended with status 0"


def test_owners_take_turns() -> None:
    async def work(processes: DocumentProcesses) -> None:
        await read(processes, file())
        order: list[str] = []

        async def one(owner: str) -> None:
            await read(processes, file(), owner)
            order.append(owner)

        many = [asyncio.create_task(one("many")) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.gather(one("few"), *many)
        assert order.index("few") <= 2

    run(work)


def test_a_waiting_job_that_is_cancelled_holds_up_no_other() -> None:
    async def work(processes: DocumentProcesses) -> None:
        tasks = [asyncio.create_task(same_again(processes, file(), f"{n % 3}")) for n in range(30)]
        await asyncio.sleep(0)
        for task in tasks[1::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert done[::2] == [TEXT] * 15
        assert await same_again(processes, file()) == TEXT

    run(work)


def test_quick_documents_do_not_wait_for_slow_ones() -> None:
    async def work(processes: DocumentProcesses) -> None:
        slow = asyncio.create_task(read(processes, file(b"loop" + b" " * 400_000)))
        assert await same_again(processes, file()) == TEXT
        assert not slow.done()
        slow.cancel()
        await asyncio.wait([slow])

    run(work, lambda: ChildProcess("hostile_document_worker"))


def test_budgets_are_in_proportion_to_size() -> None:
    def budget(size: int, name: str = "a.txt") -> Budget:
        return budget_of(Read(file(b"x" * size, name)))

    assert budget(1).work == budget(SMALL_BYTES).work == BASE_WORK
    assert budget(SMALL_BYTES, "a.pdf").work == PDF_BASE_WORK < BOUND_WORK
    assert budget(1).memory_bytes == pytest.approx(BASE_BYTES, rel=0.01)
    assert budget(4_000).work < budget(40_000, "a.docx").work < QUICK_WORK < budget(60_000, "a.pdf").work
    assert budget(400_000).work > QUICK_WORK
    assert budget_of(Write(file(b"x"), [])).work == 2 * budget(1).work
    assert budget_of(WriteReviewed(file(b"x"), b"x" * 1_000_000)).work > 2 * budget(1).work + 20_000


def test_a_file_with_very_many_tags_is_refused() -> None:
    async def work(processes: DocumentProcesses) -> None:
        with pytest.raises(InvalidFields, match="over 2,000 tags"):
            await read(processes, file(b"<p>a" + b"<b>a</b>" * 1_100, "a.html"))

    assert MAX_TAGS == 200_000
    run(work, hostile)


def test_documents_that_are_never_written_do_not_pile_up() -> None:
    async def work(processes: DocumentProcesses) -> None:
        for number in range(40):
            await read(processes, file(f"<p>{number}".encode() + b"<p>a" * 1_000, "a.html"))
        [pid] = processes.pids()
        assert proportional_set_size(pid) < 100_000_000

    run(work)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_process_whose_start_is_given_up_ends(is_cancelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started, connect = list[ChildProcess](), asyncio.open_unix_connection

    def launch() -> ChildProcess:
        started.append(hostile())
        return started[-1]

    async def connect_late(**options: Any) -> Any:
        await asyncio.sleep(0.2)
        return await connect(**options)

    monkeypatch.setattr("asyncio.open_unix_connection", connect_late)

    async def work(processes: DocumentProcesses) -> None:
        task = asyncio.create_task(read(processes, file()))
        await asyncio.sleep(0.05)
        if is_cancelled:
            task.cancel()
        else:
            await processes.stop()
        with pytest.raises(asyncio.CancelledError if is_cancelled else Unavailable):
            await task
        assert await asyncio.to_thread(becomes, lambda: started[0]._process.returncode is not None)

    run(work, launch)


def test_after_a_stop_nothing_starts() -> None:
    async def work(processes: DocumentProcesses) -> None:
        await read(processes, file())
        tasks = [asyncio.create_task(read(processes, file(content))) for content in (b"loop", TEXT)]
        await asyncio.sleep(0.05)
        await processes.stop()
        for task in tasks:
            with pytest.raises(Unavailable):
                await task
        assert processes.pids() == []

    run(work, hostile)


def test_a_process_ends_with_a_front_that_is_killed() -> None:
    program = "from app.runtime.child_process import ChildProcess; import time\n"
    program += "print(ChildProcess('app.documents.worker').pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout
        pid = int(front.stdout.readline())
        front.kill()
    assert becomes(lambda: not is_running(pid))


def test_the_deadline_ends_the_work_with_a_document() -> None:
    async def work(processes: DocumentProcesses) -> None:
        settings = Settings(deadline_ms=50)
        await read(processes, file())
        [pid] = processes.pids()
        given = document_file(processes, "a", "a.txt", b"loop", "fr", settings)
        with pytest.raises(DeadlinePassed, match="within 50 ms"):
            await in_time(settings, open_document(given, settings))
        while is_running(pid):  # noqa: ASYNC110  # a process tells nobody
            await asyncio.sleep(0.01)

    run(work, hostile)
