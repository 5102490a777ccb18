"""The tables of `benchmarks.engine`: speed of all settings and of the best ones, latency of one sentence, memory,
agreement, and cost by batch size and by sentence length.

Engines run in the processes of `benchmarks.decoders`.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from benchmarks.decoders import OURS, THEIRS
from benchmarks.table import Cell, Table
from benchmarks.team import Answer, Engine, Team, Work

THEIR_PRECISIONS = ("int8", "float32")
THEIR_ROWS = (16, 32, 64, 128)
OUR_ROWS = (32, 64, 128)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Batch sizes of the table by batch size."""
LENGTHS = (8, 16, 32, 64, 128, 256)
"""Source tokens, end symbol included, of the table by length."""
LENGTH_ROWS = 32
LENGTH_TOKENS = 4_096
"""Source tokens in total for each length, in at least `LENGTH_ROWS` sentences."""


@dataclass(frozen=True)
class Setting:
    """An engine and its batch size."""

    engine: Engine
    rows: int

    def __str__(self) -> str:
        return f"{self.engine}, {'batches of' if self.engine.kind == THEIRS else 'rows:'} {self.rows}"


@dataclass(frozen=True)
class Plan:
    """Extent of the measurement."""

    rounds: int = 3
    seconds: float = 1.5
    """Minimum duration of a turn, which consists of whole passes over the sentences."""
    alone: int = 50
    """Sentences timed one at a time."""
    precisions: Sequence[str] = ("int8",)
    """Of our engine."""
    our_rows: Sequence[int] = OUR_ROWS
    their_rows: Sequence[int] = THEIR_ROWS
    rows: Sequence[int] = ROWS
    lengths: Sequence[int] = LENGTHS
    sample: int = 256
    """Sentences of the table by batch size."""


@dataclass(frozen=True)
class Speed:
    sentences: float
    """Per second, like `tokens`."""
    tokens: float


class Bench:
    """The engines of one bundle on some cores. The processes of each start when first needed."""

    def __init__(self, models: dict[tuple[str, str], Path], cores: Sequence[int], plan: Plan, work: Work) -> None:
        """`models`: the folder of the weights, by kind of engine and precision."""
        self.cores, self.plan, self.work = cores, plan, work
        self._models = models
        self._teams: dict[Engine, Team] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(self, engine: Engine) -> Team:
        """New processes, which end when the context of the team exits."""
        return Team(engine, self._models[engine.kind, engine.precision], self.cores)

    def team(self, setting: Setting, work: Work) -> Team:
        """The processes of this engine, ready for `work`."""
        team = self._teams.get(setting.engine)
        if team is None:
            team = self._teams[setting.engine] = self._stack.enter_context(self.start(setting.engine))
        team.load(work)
        team.ready(setting.rows)
        return team

    def about(self) -> Iterator[str]:
        """Descriptions of the engines used so far."""
        yield from dict.fromkeys(team.about for team in self._teams.values())

    def warm_up(self, setting: Setting, work: Work) -> None:
        self.team(setting, work).decode()

    def turn(self, setting: Setting, work: Work) -> Speed:
        """Runs whole passes over `work` with one engine for the duration in the plan."""
        team = self.team(setting, work)
        passes, tokens, seconds = 0, 0, 0.0
        while passes == 0 or seconds < self.plan.seconds:
            more, taken = team.decode()
            passes, tokens, seconds = passes + 1, tokens + more, seconds + taken
        return Speed(passes * len(work.sources) / seconds, tokens / seconds)

    def rounds(self, settings: Sequence[Setting], work: Work, count: int) -> dict[Setting, list[Speed]]:
        """Runs `count` rounds of turns after a warm-up, in reverse order every other round."""
        for setting in settings:
            self.warm_up(setting, work)
        speeds: dict[Setting, list[Speed]] = {setting: [] for setting in settings}
        for number in range(count):
            for setting in settings[:: -1 if number % 2 else 1]:
                speeds[setting].append(self.turn(setting, work))
        return speeds


def our_engine(bench: Bench, precision: str) -> Engine:
    """As in the service: one worker per core."""
    return Engine(OURS, precision, len(bench.cores))


def their_engines(bench: Bench) -> list[Engine]:
    """CTranslate2 with one worker per core, and with one thread per core."""
    count = len(bench.cores)
    return [Engine(THEIRS, p, *shape) for p in THEIR_PRECISIONS for shape in dict.fromkeys([(count, 1), (1, count)])]


def sweep(bench: Bench) -> tuple[Table, dict[str, Setting]]:
    """Measures every setting of both engines; also returns the best of each, by target tokens a second."""
    plan = bench.plan
    theirs = [Setting(engine, rows) for engine in their_engines(bench) for rows in plan.their_rows]
    ours = [Setting(our_engine(bench, precision), rows) for precision in plan.precisions for rows in plan.our_rows]
    speeds = bench.rounds(in_turns(theirs, ours), bench.work, plan.rounds)
    table = Table("every setting", ("sentences/s", "target tokens/s"))
    for setting in (*theirs, *ours):
        table.rows[str(setting)] = [[s.sentences for s in speeds[setting]], [s.tokens for s in speeds[setting]]]

    def median(setting: Setting) -> float:
        return statistics.median(speed.tokens for speed in speeds[setting])

    return table, {OURS: max(ours, key=median), THEIRS: max(theirs, key=median)}


def in_turns(many: Sequence[Setting], few: Sequence[Setting]) -> list[Setting]:
    """Interleaves `few` evenly with `many`, so that a slow minute slows both engines."""
    places = [(place / len(group), setting) for group in (many, few) for place, setting in enumerate(group)]
    return [setting for _, setting in sorted(places, key=lambda entry: entry[0])]


def compare_best(bench: Bench, best: dict[str, Setting]) -> Table:
    """Measures the best setting of each engine in turns, and their ratio in each round."""
    speeds = bench.rounds(list(best.values()), bench.work, 2 * bench.plan.rounds + 1)
    ours, theirs = speeds[best[OURS]], speeds[best[THEIRS]]
    table = Table("best against best, in turns", ("sentences/s", "target tokens/s"))
    for setting in best.values():
        table.rows[str(setting)] = [[s.sentences for s in speeds[setting]], [s.tokens for s in speeds[setting]]]
    table.rows["ours / theirs"] = [
        [our.sentences / their.sentences for our, their in zip(ours, theirs, strict=True)],
        [our.tokens / their.tokens for our, their in zip(ours, theirs, strict=True)],
    ]
    return table


def alone(bench: Bench, rows: int) -> Table:
    """Latency of one sentence decoded alone: the median over different sentences, once a round."""
    engines = [Engine(OURS, precision) for precision in bench.plan.precisions]
    shapes = dict.fromkeys((1, threads) for threads in (1, len(bench.cores)))
    engines += [Engine(THEIRS, precision, *shape) for precision in THEIR_PRECISIONS for shape in shapes]
    numbers = random.Random(1).sample(range(len(bench.work.sources)), min(bench.plan.alone, len(bench.work.sources)))
    found: dict[Engine, list[float]] = {engine: [] for engine in engines}
    for number in range(bench.plan.rounds + 1):
        for engine in engines[:: -1 if number % 2 else 1]:
            seconds = bench.team(Setting(engine, rows), bench.work).alone(numbers)
            if number:  # the first warms up
                found[engine].append(1_000 * statistics.median(seconds))
    table = Table("one sentence alone", ("ms",), note=f"the median of {len(numbers)}")
    table.rows |= {f"{engine}": [values] for engine, values in found.items()}
    best = min(engines[len(bench.plan.precisions) :], key=lambda engine: statistics.median(found[engine]))
    ratios = [their / our for our, their in zip(found[engines[0]], found[best], strict=True)]
    table.rows[f"{best} / {engines[0]}"] = [ratios]
    return table


def memory(bench: Bench, best: dict[str, Setting]) -> Table:
    """Memory of new processes after decoding all sentences twice."""
    table = Table("memory, MiB", ("resident", "shared pages once"))
    for setting in best.values():
        with bench.start(setting.engine) as team:
            team.load(bench.work)
            team.ready(setting.rows)
            for _ in range(2):
                team.decode()
            table.rows[str(setting)] = [*(team.memory() or (None, None))]
    return table


def agreement(bench: Bench, rows: int) -> Table:
    """Translations of each engine against our float32."""
    engines = [Engine(OURS, precision) for precision in dict.fromkeys(["float32", *bench.plan.precisions])]
    engines += [Engine(THEIRS, precision) for precision in THEIR_PRECISIONS]
    answers = {}
    for engine in engines:
        team = bench.team(Setting(engine, rows), bench.work)
        team.decode()
        answers[engine] = team.answers()
    reference = answers[engines[0]]
    note = f"against {engines[0]}; difference of the mean log probability of equal translations"
    table = Table("translations", ("% equal", "difference", "largest", "target tokens"), note=note)
    table.rows |= {str(engine): compared(reference, found) for engine, found in answers.items()}
    return table


def compared(reference: Sequence[Answer], found: Sequence[Answer]) -> list[Cell]:
    """% of sentences with equal tokens; for these, mean and maximum difference of the mean log probability; tokens."""
    same = [abs(a.log_prob - b.log_prob) for a, b in zip(reference, found, strict=True) if a.tokens == b.tokens]
    tokens = sum(len(answer.tokens) for answer in found)
    differences = (statistics.fmean(same), max(same)) if same else (None, None)
    return [100 * len(same) / len(found), *differences, tokens]


def by_rows(bench: Bench) -> Table:
    """Throughput by batch size."""
    work = replace(bench.work, sources=bench.work.sources[: bench.plan.sample])
    columns = ("ours, sentences/s", "CTranslate2's", "ours / theirs")
    table = Table("by sentences decoded together", columns, note=_one_core(bench))
    for rows in bench.plan.rows:
        ours, theirs = _pair(bench, rows, work)
        ratios = [our.tokens / their.tokens for our, their in zip(ours, theirs, strict=True)]
        table.rows[f"{rows}"] = [[s.sentences for s in ours], [s.sentences for s in theirs], ratios]
    return table


def by_length(bench: Bench, longest: int, limit: Callable[[int], int]) -> Table:
    """Time by sentence length: sentences are joined and cut to each length."""
    columns = ("ours, ms a sentence", "CTranslate2's", "target tokens, ours", "CTranslate2's ", "ours, us a token")
    table = Table("by source tokens", columns, note=f"{_one_core(bench)}, {LENGTH_ROWS} decoded together")
    for length in bench.plan.lengths:
        if length - 1 <= longest:
            sources = joined(bench.work.sources, length - 1, max(LENGTH_ROWS, LENGTH_TOKENS // length))
            ours, theirs = _pair(bench, LENGTH_ROWS, Work(sources, limit(length - 1), bench.work.beam_size))
            tokens = [statistics.median(s.tokens / s.sentences for s in speeds) for speeds in (ours, theirs)]
            times = [[1_000 / s.sentences for s in speeds] for speeds in (ours, theirs)]
            each = [1_000 * value / (length + tokens[0]) for value in times[0]]
            table.rows[f"{length}"] = [*times, *tokens, each]
    return table


def _pair(bench: Bench, rows: int, work: Work) -> list[list[Speed]]:
    engines = (Engine(OURS, bench.plan.precisions[0]), Engine(THEIRS, "int8"))
    return list(bench.rounds([Setting(engine, rows) for engine in engines], work, bench.plan.rounds).values())


def _one_core(bench: Bench) -> str:
    return f"ours in {bench.plan.precisions[0]}, CTranslate2 in int8, each 1 x 1"


def joined(sources: Sequence[Sequence[int]], length: int, count: int) -> list[list[int]]:
    """`count` sequences of exactly `length` tokens, cut from the joined sources, which repeat if necessary."""
    tokens = [id for source in sources for id in source]
    tokens *= math.ceil(count * length / len(tokens))
    return [tokens[place * length : (place + 1) * length] for place in range(count)]
