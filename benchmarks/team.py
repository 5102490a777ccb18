"""The processes of an engine under measurement: loads them with sentences, starts decoding, and times it."""

from __future__ import annotations

import array
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, Self

from benchmarks.decoders import NUMBERS, OURS, THEIRS

ROOT = Path(__file__).resolve().parent.parent
NAMES = {OURS: "Interlinear", THEIRS: "CTranslate2"}
SUPPLY = (1 << 16) // array.array(NUMBERS).itemsize
"""As many numbers a pipe holds on Linux; those of all sentences are in it before decoding begins."""


@dataclass(frozen=True)
class Engine:
    """An engine and how it uses cores: so many `workers` decode at once, with so many `threads` each."""

    kind: str
    precision: str
    workers: int = 1
    threads: int = 1

    def __str__(self) -> str:
        return f"{NAMES[self.kind]} {self.precision}, {self.workers} x {self.threads}"


@dataclass(frozen=True)
class Work:
    """Sentences to decode, as token ids without end symbols, and the most target tokens that any may become."""

    sources: list[list[int]]
    limit: int

    @property
    def lengths(self) -> list[int]:
        """Source tokens, end symbols included."""
        return [len(source) + 1 for source in self.sources]


class Answer(NamedTuple):
    """Target tokens, an end symbol included, and the mean of their natural log probabilities."""

    tokens: list[int]
    log_prob: float


class Team:
    """The processes of an engine, on `cores`, seen from the one that measures: leaving it ends them.

    Ours is one process a worker; CTranslate2's workers are threads of one.
    """

    def __init__(self, engine: Engine, model: Path, cores: Sequence[int]) -> None:
        self.engine = engine
        self._work: Work | None = None
        self._supply, self._source = -1, -1
        options = {"model": str(model), "precision": engine.precision, "threads": engine.threads}
        if engine.kind == OURS:
            self._supply, self._source = os.pipe()
            os.set_blocking(self._supply, False)
            options["supply"], count = self._supply, engine.workers
        else:
            options["workers"], count = engine.workers, 1
        self._processes = [self._start(options, cores) for _ in range(count)]
        try:
            self.about: str = self._all("about")[0]
        except RuntimeError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes:
            process.communicate()
        for end in (self._supply, self._source):
            if end >= 0:
                os.close(end)

    def load(self, work: Work) -> None:
        if len(work.sources) > SUPPLY:
            raise ValueError(f"{len(work.sources):,} sentences are over the {SUPPLY:,} that a supply holds")
        if work is not self._work:
            self._all("load", sources=work.sources, limit=work.limit)
            # The longest first, as greedy_decode has it, so that the workers end at about the same time.
            order = sorted(range(len(work.sources)), key=lambda number: -len(work.sources[number]))
            self._work, self._order = work, array.array(NUMBERS, order).tobytes()

    def ready(self, rows: int) -> None:
        """Whatever `rows` needs is allocated now."""
        self._all("ready", rows=rows)

    def decode(self) -> tuple[int, float]:
        """Target tokens of all sentences, and the seconds until the last process had done its last."""
        began = perf_counter()
        if self._source >= 0:
            os.write(self._source, self._order)
        tokens = sum(self._all("decode"))
        return tokens, perf_counter() - began

    def answers(self) -> list[Answer]:
        """What became of each sentence, in order."""
        found = {number: Answer(*answer) for part in self._all("answers") for number, *answer in part}
        return [found[number] for number in range(len(found))]

    def alone(self, numbers: Sequence[int]) -> list[float]:
        """Seconds that each of these sentences takes with nothing else to do, in the first process."""
        seconds: list[float] = self._ask(self._processes[:1], "alone", numbers=list(numbers))[0]
        return seconds

    def memory(self) -> tuple[float, float] | None:
        """MiB of all processes together: resident, and resident with shared pages counted once; None if unknown."""
        try:
            rolled = [Path(f"/proc/{process.pid}/smaps_rollup").read_text() for process in self._processes]
        except OSError:
            return None
        sizes = [{line.split()[0]: int(line.split()[1]) for line in text.splitlines()[1:]} for text in rolled]
        resident, shared_once = (sum(size[name] for size in sizes) / 1024 for name in ("Rss:", "Pss:"))
        return resident, shared_once

    def _start(self, options: dict[str, Any], cores: Sequence[int]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "benchmarks.decoders", self.engine.kind, json.dumps(options)]
        return subprocess.Popen(
            [*command, json.dumps(list(cores))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self._supply] if self._supply >= 0 else [],
        )

    def _all(self, verb: str, **arguments: Any) -> list[Any]:
        return self._ask(self._processes, verb, **arguments)

    def _ask(self, processes: Sequence[subprocess.Popen[str]], verb: str, **arguments: Any) -> list[Any]:
        """Orders these processes to `verb`, all at once; returns what each answers."""
        order = json.dumps({"verb": verb, "arguments": arguments}) + "\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(order)
            process.stdin.flush()
        return [self._reply(process) for process in processes]

    def _reply(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of {self.engine} has ended with {process.wait()}")
        return json.loads(line)
