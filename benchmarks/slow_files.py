"""Looks for small files that take long to read, to write, or to review: a hill climb over each format's grammar.

    python -m benchmarks.slow_files [--minutes 60] [--format yaml ...] [--bytes 4096] [--seed 0]

Files are made of the pieces of a grammar (benchmarks/grammars_text.py, benchmarks/grammars_packages.py), repeated and
nested. What costs the most work or memory is changed at random and measured again, each time in a process of its own
with limits. Work is processor time in units of what this machine takes for a fixed piece of work, about a millisecond
(app/runtime/work_unit.py). Prints each grammar's worst file with its costs, those of the same file four times as long,
and keeps it under build/slow_files. Fails if a file of 4 KB takes over 500 units or 64 MB, in proportion if --bytes is
greater, or if it raises anything but UnreadableDocument.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import msgspec

from app.documents.messages import BASE_BYTES, Budget, File, Read, budget_of
from app.formats import UnreadableDocument, read
from app.formats.review import read_xliff, write_xliff
from app.formats.review_html import write_html
from app.formats.units import Reviewed, translations_of, units_of
from app.markup.passage import Passage
from app.markup.render import render_source
from app.runtime.work_unit import unit_seconds
from benchmarks.grammars import Genome, Grammar, Node, mutated, scaled, seeds

BOUND_BYTES, BOUND_WORK, BOUND_MB = 4096, 500, 64.0
_LIMIT = Budget(4_000, 2048 << 20)
"""At which a process that works on a file is killed."""
_FOLDER = Path("build", "slow_files")
_MAX_KEPT = 6
_OTHER_LETTERS = str.maketrans("abcdefghijklmnopqrstuvwxyz", "bcdefghijklmnopqrstuvwxyza")
_WORD = re.compile(r"[^\W\d_]+")


class Cost(NamedTuple):
    """Units of work of the longest request, megabytes by which memory grew, and a traceback if it raised."""

    work: float
    megabytes: float
    fault: str = ""

    def share(self, size: int) -> float:
        """Of the bound for a file of that many bytes; over 1 is too much."""
        scale = max(1.0, size / BOUND_BYTES)
        return max(self.work / BOUND_WORK, self.megabytes / BOUND_MB) / scale


class Found(NamedTuple):
    genome: Genome
    cost: Cost


def read_and_write(name: str, content: bytes, options: dict[str, Any]) -> list[float]:
    """The processor seconds of requests: to write a document with other texts, its review as a page and as XLIFF, and
    the document with what was reviewed; each reads it first. Raises UnreadableDocument."""
    times = [process_time()]
    document = read(name, content, max_chars=50_000, **options)
    times.append(process_time())
    document.write([_other_text(passage) for passage in document.passages])
    times.append(process_time())
    units = units_of(document.passages, document.locations)
    targets = [unit.source.translate(_OTHER_LETTERS) for unit in units]
    reviewed = [Reviewed(text, 0.3, ["A warning."], [one.span() for one in _WORD.finditer(text)]) for text in targets]
    write_html("a", ("en", "fr"), units, reviewed, "model", 0.5)
    times.append(process_time())
    xliff = write_xliff("a", ("en", "fr"), units, reviewed, "model")
    times.append(process_time())
    document.write(translations_of(document.passages, units, read_xliff(xliff, units)))
    times.append(process_time())
    reading, *others = (end - start for start, end in pairwise(times))
    return [reading + other for other in others]


def _other_text(passage: Passage) -> str:
    return render_source(_with_other_text(passage))


def _with_other_text(passage: Passage) -> Passage:
    nested = tuple(inner._replace(passage=_with_other_text(inner.passage)) for inner in passage.nested)
    return replace(passage, text=passage.text.translate(_OTHER_LETTERS), nested=nested)


def measure(work: Callable[[], list[float]], limit: Budget = _LIMIT) -> Cost:
    """The cost of `work` in a process of its own, which is killed at the limit."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _work_and_exit(work, writing, limit)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    _, status, used = os.wait4(child, 0)
    if answer:
        return Cost(*json.loads(answer))
    killed = os.waitstatus_to_exitcode(status)
    megabytes = (used.ru_maxrss - before.ru_maxrss) / 1024
    fault = "" if killed in (-signal.SIGKILL, -signal.SIGPROF) else f"the process ended with {killed}"
    return Cost((used.ru_utime + used.ru_stime) / unit_seconds(), megabytes, fault)


def _work_and_exit(work: Callable[[], list[float]], writing: int, limit: Budget) -> None:
    signal.setitimer(signal.ITIMER_PROF, limit.work * unit_seconds())
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + limit.memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fault = ""
    before, began, times = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time(), list[float]()
    try:
        times = work()
    except UnreadableDocument as error:
        if len(str(error).splitlines()) != 1:
            fault = f"{error!r} is not one line"
    except MemoryError:
        pass  # the peak says so
    except BaseException:
        fault = traceback.format_exc()
    seconds = max(times, default=process_time() - began)
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    with open(writing, "wb") as pipe:
        pipe.write(json.dumps([seconds / unit_seconds(), megabytes, fault]).encode())
    os._exit(0)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def cost_of(genome: Genome, grammar: Grammar) -> Cost:
    content, options = grammar.build(genome.text(grammar)), grammar.options[genome.option]
    work = grammar.work or read_and_write
    limit = _LIMIT
    if grammar.suffix == ".pdf":  # of formats, it alone leaves its limits to the process for documents
        budget = budget_of(Read(File("a.pdf", content, "fr", "en", 50_000)))
        limit = msgspec.structs.replace(budget, memory_bytes=BASE_BYTES)
    return measure(lambda: work(f"a{grammar.suffix}", content, options), limit)


def climb(grammar: Grammar, seconds: float, limit: int, draw: random.Random) -> tuple[list[Found], int]:
    """The worst files found in that time, and the number of files tried.

    First the one that takes the longest, then the one that takes the most memory, then those that raise something.
    """
    ends, tried = time.monotonic() + seconds, 0
    slow, large, faults = list[Found](), list[Found](), dict[str, Found]()
    waiting = seeds(grammar, limit, draw)
    while time.monotonic() < ends or not tried:
        genome = next(waiting, None)
        if genome is None or (tried > 20 and draw.random() < 0.5):
            parents = [found.genome for found in (*slow, *large)]
            genome = mutated(draw.choice(parents), parents, grammar, limit, draw)
        found = Found(genome, cost_of(genome, grammar))
        tried += 1
        if found.cost.share(limit) > 1:  # of several runs the cheapest, since others work on this machine, too
            found = min([found, *(Found(genome, cost_of(genome, grammar)) for _ in range(2))], key=_work)
        if found.cost.fault:
            faults.setdefault(found.cost.fault.splitlines()[-1], found)
        slow = sorted([*slow, found], key=_work, reverse=True)[:_MAX_KEPT]
        large = sorted([*large, found], key=_megabytes, reverse=True)[: _MAX_KEPT // 2]
    return [slow[0], large[0], *faults.values()], tried


def _work(found: Found) -> float:
    return found.cost.work


def _megabytes(found: Found) -> float:
    return found.cost.megabytes


def grammars() -> list[Grammar]:
    from benchmarks.grammars_packages import GRAMMARS as PACKAGES
    from benchmarks.grammars_text import GRAMMARS as TEXT

    return [*TEXT, *PACKAGES]


def report(grammar: Grammar, worst: Sequence[Found], tried: int, limit: int, times: int) -> list[str]:
    """Prints and keeps the worst files; returns a line for each that is over the bound or raised something."""
    wrong = []
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for kind, found in zip(("time", "memory", *("fault" for _ in worst[2:])), worst, strict=True):
        text = found.genome.text(grammar)
        place = _FOLDER / f"{grammar.name}-{kind}{grammar.suffix}"
        place.write_bytes(grammar.build(text))
        longer = cost_of(scaled(found.genome, times), grammar) if times > 1 else found.cost
        cost = found.cost
        print(
            f"| {grammar.name} | {kind} | {len(text.encode()):,} | {cost.work:.0f} | {cost.megabytes:.1f} |"
            f" {longer.work:.0f} | {longer.megabytes:.1f} | {tried:,} | {found.genome} |",
            flush=True,
        )
        if cost.fault or cost.share(limit) > 1:
            what = cost.fault or f"{cost.work:.0f} units of work, {cost.megabytes:.0f} MB"
            wrong.append(f"{place} ({grammar.options[found.genome.option]}): {what}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="for all grammars together")
    parser.add_argument("--format", nargs="*", default=(), help="grammars by their names or by how these begin")
    parser.add_argument("--bytes", type=int, default=BOUND_BYTES, help="maximum size of a file's text")
    parser.add_argument("--times", type=int, default=4, help="how many times as long the worst files are measured, too")
    parser.add_argument("--seed", type=int, help="default: another one each time")
    given = parser.parse_args()
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    chosen = [one for one in grammars() if not given.format or one.name.startswith(tuple(given.format))]
    if not chosen:
        parser.error(f"the grammars are {', '.join(one.name for one in grammars())}")
    print(f"seed {seed}, files of up to {given.bytes:,} bytes; {given.times} times as long in columns six and seven")
    print(f"a unit of work takes {1000 * unit_seconds():.2f} ms")
    print("| grammar | worst in | bytes | work | MB | work, longer | MB, longer | tried | file |")
    print("|---|---|--:|--:|--:|--:|--:|--:|---|", flush=True)
    wrong = []
    for grammar in chosen:
        with contextlib.suppress(UnreadableDocument):  # so that each process has what reading and writing load
            work = grammar.work or read_and_write
            work(f"a{grammar.suffix}", grammar.build(Genome((Node(grammar.pieces[0]),)).text(grammar)), {})
        gc.collect()
        gc.freeze()
        draw = random.Random(f"{seed} {grammar.name}")
        worst, tried = climb(grammar, given.minutes * 60 / len(chosen), given.bytes, draw)
        wrong += report(grammar, worst, tried, given.bytes, given.times)
    if wrong:
        sys.exit("\n".join(["", *wrong]))


if __name__ == "__main__":
    main()
