"""Times a translation memory of many pairs: writing, loading, equal and similar texts, and what each request pays.

    python -m benchmarks.memory_speed --pairs laws.tsv --source en --target fr --count 100000

Reading is timed by the processor time of the process, since other work on the machine does not count; what waits for
the disk, by the clock as well.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, NamedTuple

import typer

from app.storage.memory_sqlite import SQLiteLog
from app.storage.protocols import MemorySize, Scope
from app.storage.translation_memory import TranslationMemory
from benchmarks.memory_replay import read_pairs

PAIRS_PER_PUT = 10_000
LOOKUPS, SEARCHES, SINGLE_WRITES = 2_000, 500, 200
SUGGESTIONS = 5
SEED = 3
_MICROSECONDS = 1_000_000


class Times(NamedTuple):
    """Of several calls, in microseconds."""

    median: float
    p95: float
    longest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        ordered = sorted(seconds)
        return cls(*(_MICROSECONDS * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 1.0)))

    def __str__(self) -> str:
        return f"median {self.median:,.0f} µs, 95 % {self.p95:,.0f} µs, longest {self.longest:,.0f} µs"


def rss_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def timed(work: Callable[[str], object], texts: Sequence[str]) -> Times:
    found = []
    for text in texts:
        began = process_time()
        work(text)
        found.append(process_time() - began)
    return Times.of(found)


async def timed_calls(work: Callable[[], Awaitable[object]], count: int, clock: Callable[[], float]) -> Times:
    found = []
    for _ in range(count):
        began = clock()
        await work()
        found.append(clock() - began)
    return Times.of(found)


def memory_at(file: Path, count: int) -> TranslationMemory:
    return TranslationMemory(SQLiteLog(file, MemorySize(2 * count, 1 << 40)))


def write(file: Path, scope: Scope, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
    """Writes all pairs, and returns how many seconds that took, and how many of processor time."""

    async def written() -> tuple[float, float]:
        memory = memory_at(file, len(pairs))
        began, used = perf_counter(), process_time()
        for start in range(0, len(pairs), PAIRS_PER_PUT):
            await memory.put(scope, pairs[start : start + PAIRS_PER_PUT], "")
        seconds = perf_counter() - began, process_time() - used
        await memory.stop()
        return seconds

    return asyncio.run(written())


async def measure(file: Path, scope: Scope, known: Sequence[tuple[str, str]], others: Sequence[str]) -> None:
    """Prints the times of one process that reads the file. `others`: texts that it does not have."""
    memory = memory_at(file, len(known))
    before, began = rss_bytes(), process_time()
    found = await memory.snapshot(scope)
    print(
        f"load: {process_time() - began:.2f} s, {(rss_bytes() - before) / 1e6:.0f} MB for {found.memory.count:,} pairs"
    )
    before, began = rss_bytes(), process_time()
    await memory.snapshots(*scope, with_similar=True)
    print(f"index of similar texts: {process_time() - began:.2f} s, {(rss_bytes() - before) / 1e6:.0f} MB more")
    asked = [text for text, _ in random.Random(SEED).sample(list(known), LOOKUPS)]
    print(f"equal text: {timed(found.exact, asked)}")
    print(f"no equal text: {timed(found.exact, others[:LOOKUPS])}")
    print(f"similar texts: {timed(lambda text: found.fuzzy(text, SUGGESTIONS), others[:SEARCHES])}")
    version = await timed_calls(lambda: memory.snapshots(*scope), LOOKUPS, process_time)
    print(f"version, for each request: {version}")
    pairs = iter(others)
    written = await timed_calls(lambda: memory.put(scope, [(next(pairs), "x")], ""), SINGLE_WRITES, perf_counter)
    print(f"write of one pair, by the clock: {written}")
    began = process_time()
    await memory.snapshot(scope)
    print(f"update of the index by {SINGLE_WRITES} pairs: {1e3 * (process_time() - began):.1f} ms")
    await memory.stop()


def main(
    pairs: Annotated[Path, typer.Option(help="Lines of a text, a tab and its translation, perhaps .xz")],
    source: Annotated[str, typer.Option()],
    target: Annotated[str, typer.Option()],
    count: int = 100_000,
) -> None:
    by_text = dict(islice(read_pairs(pairs), 2 * count))
    known, others = list(islice(by_text.items(), count)), list(islice(by_text, count, count + LOOKUPS))
    scope = Scope("", source, target)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "memory.sqlite"
        with ProcessPoolExecutor(1) as other_process:  # so that its memory does not count
            seconds, used = other_process.submit(write, file, scope, known).result()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"write: {seconds:.2f} s, {used:.2f} of them computing, for {len(known):,} pairs, {size / 1e6:.0f} MB")
        asyncio.run(measure(file, scope, known, others))


if __name__ == "__main__":
    typer.run(main)
