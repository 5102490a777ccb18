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

from benchmarks.decoders import INDEX_TYPE, OURS, THEIRS

ROOT = Path(__file__).resolve().parent.parent
ENGINE_NAMES = {OURS: "Interlinear", THEIRS: "CTranslate2"}
QUEUE_CAPACITY = (1 << 16) // array.array(INDEX_TYPE).itemsize
"""Indices that a pipe holds on Linux. Those of all sentences are written before decoding begins."""


@dataclass(frozen=True)
class Engine:
    """An engine and its use of cores: `workers` decode in parallel, with `threads` threads each."""

    kind: str
    precision: str
    workers: int = 1
    threads: int = 1

    def __str__(self) -> str:
        return f"{ENGINE_NAMES[self.kind]} {self.precision}, {self.workers} x {self.threads}"


@dataclass(frozen=True)
class Work:
    """Sentences to decode, as token ids without end symbols.

    `limit`: the maximum number of target tokens of each.
    """

    sources: list[list[int]]
    limit: int
    beam_size: int = 1

    @property
    def lengths(self) -> list[int]:
        """Source tokens, end symbols included."""
        return [len(source) + 1 for source in self.sources]


class Answer(NamedTuple):
    """Target tokens, end symbol included, and the mean of their natural log probabilities."""

    tokens: list[int]
    log_prob: float


class Team:
    """The processes of an engine on `cores`, a context that ends them on exit.

    Our engine has one process per worker; CTranslate2's workers are threads of one process.
    """

    def __init__(self, engine: Engine, model: Path, cores: Sequence[int]) -> None:
        self.engine = engine
        self._work: Work | None = None
        self._queue, self._source = -1, -1
        options = {"model": str(model), "precision": engine.precision, "threads": engine.threads}
        if engine.kind == OURS:
            self._queue, self._source = os.pipe()
            os.set_blocking(self._queue, False)
            options["queue"], count = self._queue, engine.workers
        else:
            options["workers"], count = engine.workers, 1
        self._processes = [self._start(options, cores) for _ in range(count)]
        try:
            self.about: str = self._call_all("about")[0]
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
        for end in (self._queue, self._source):
            if end >= 0:
                os.close(end)

    def load(self, work: Work) -> None:
        if len(work.sources) > QUEUE_CAPACITY:
            raise ValueError(f"{len(work.sources):,} sentences exceed the {QUEUE_CAPACITY:,} that the queue holds")
        if work is not self._work:
            self._call_all("load", sources=work.sources, limit=work.limit, beam_size=work.beam_size)
            # The longest first, as in greedy_decode, so that the workers end at about the same time.
            order = sorted(range(len(work.sources)), key=lambda number: -len(work.sources[number]))
            self._work, self._order = work, array.array(INDEX_TYPE, order).tobytes()

    def ready(self, rows: int) -> None:
        """Sets the batch size and allocates its memory."""
        self._call_all("ready", rows=rows)

    def decode(self) -> tuple[int, float]:
        """Target tokens of all sentences, and the seconds until the last process finished."""
        began = perf_counter()
        if self._source >= 0:
            os.write(self._source, self._order)
        tokens = sum(self._call_all("decode"))
        return tokens, perf_counter() - began

    def answers(self) -> list[Answer]:
        """The translation of each sentence, in order."""
        found = {number: Answer(*answer) for part in self._call_all("answers") for number, *answer in part}
        return [found[number] for number in range(len(found))]

    def alone(self, numbers: Sequence[int]) -> list[float]:
        """Seconds that each of these sentences takes when decoded alone, in the first process."""
        seconds: list[float] = self._call(self._processes[:1], "alone", numbers=list(numbers))[0]
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
            pass_fds=[self._queue] if self._queue >= 0 else [],
        )

    def _call_all(self, method: str, **arguments: Any) -> list[Any]:
        return self._call(self._processes, method, **arguments)

    def _call(self, processes: Sequence[subprocess.Popen[str]], method: str, **arguments: Any) -> list[Any]:
        """Calls a method of the decoder in all these processes in parallel; returns their results."""
        command = json.dumps({"method": method, "arguments": arguments}) + "\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(command)
            process.stdin.flush()
        return [self._reply(process) for process in processes]

    def _reply(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of {self.engine} exited with status {process.wait()}")
        return json.loads(line)
