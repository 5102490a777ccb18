"""When a run evaluates and ends, and at which learning rate it trains until then: by steps, or by the clock.

`training.optim.loop` trains.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from training.optim.distributed import ALONE, World
from training.optim.trainer import Recipe, Trainer

EVALUATIONS = 20
"""Evaluations at equal shares of the time, unless they would take more than `MAX_EVALUATING` of it."""
MAX_EVALUATING = 0.1
MAX_WARMUP = 0.125
"""Maximum share of the steps in warm-up."""
MIN_TIMED_STEPS = 5
MIN_TIMED = 1 / 32
"""Steps, and share of the time, after which the speed is trusted; the first steps may be slow."""
RATES = 40
"""Learning rates recorded at equal shares of the time, besides those of steps 1, 2, 4, 8 and so on."""


@dataclass(frozen=True)
class Clock:
    """The clock of one command. `began`: when the command began, by `now`, in seconds.

    `exporting_s`: seconds to keep back for what follows training, if a step takes `step_s`. `evaluation_s`: seconds of
    an evaluation, as far as they are known before the first one.
    """

    began: float
    now: Callable[[], float]
    exporting_s: float = 0.0
    step_s: float | None = None
    evaluation_s: float = 0.0

    @classmethod
    def started(cls) -> Clock:
        return cls(time.monotonic(), time.monotonic)


@dataclass
class TimeUsed:
    """How much of its minutes a run has used, in all sessions; saved with its state.

    In seconds since the first command began, without the time between sessions.
    """

    used_s: float = 0.0
    began_s: float = 0.0
    """Used before the first step."""
    evaluated_s: float = 0.0
    """Used up to the end of the last evaluation."""
    evaluation_s: float = 0.0
    """Taken by the last evaluation."""
    warmup: int = 0
    """Steps of warm-up, as it was or will be."""
    minutes: float = 0.0
    """The minutes that the run has; 0 in states older than this field."""
    ended_minutes: float = 0.0
    """The minutes that the run had when they ended; 0 if it has not ended."""
    rates: list[tuple[int, float, float]] = field(default_factory=list)
    """A few dozen steps, each with the share of the training time before it and its learning rate."""


class StepSchedule:
    """The schedule of a run by steps. The loop tells a schedule what it has done, which is nothing to this one."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def seconds_left(self) -> float | None:
        """Seconds left for training, if known."""
        return None

    def begin(self, step: int) -> None:
        """Begins or continues training after `step` steps."""

    def rate(self, trainer: Trainer, step: int) -> float:
        """The learning rate of `step`."""
        return trainer.learning_rate(step)

    def done_before(self, step: int) -> float:
        """The share of the run that is over before `step`."""
        return (step - 1) / self.recipe.steps

    def stepped(self) -> None:
        """Notes the end of a step."""

    def evaluation_is_due(self, step: int) -> bool:
        return step % self.recipe.evaluate_every == 0

    def ends(self, step: int) -> bool:
        """Whether `step` is the last one, which is noted."""
        return step == self.recipe.steps

    def evaluated(self) -> None:
        """Notes the end of an evaluation."""

    def saved(self) -> None:
        """Notes that the state has been saved."""


class ClockSchedule(StepSchedule):
    """The schedule of a run with the recipe's `minutes`.

    The clock of the first process decides for all, and is read after each step, evaluation and saving: `used`. Training
    ends when the last evaluation and the export still fit.
    """

    def __init__(self, recipe: Recipe, used: TimeUsed, clock: Clock, world: World = ALONE) -> None:
        super().__init__(recipe)
        assert recipe.minutes is not None
        self._minutes = recipe.minutes
        self._used, self._clock, self._world = used, clock, world
        self._before_s = used.used_s
        self._last_s: deque[float] = deque(maxlen=101)
        self._step_s = self._saving_s = 0.0
        self._rate: tuple[int, float, float] | None = None
        used.evaluation_s = used.evaluation_s or clock.evaluation_s

    def begin(self, step: int) -> None:
        self._read()
        used = self._used
        if not step:
            used.began_s = used.evaluated_s = used.used_s
        elif 0 < used.minutes < self._minutes:  # a warm-up for fewer steps may be far too short for these
            used.warmup = self._fitting_warmup(step, (used.used_s - used.began_s) / step)
        used.minutes = self._minutes

    def stepped(self) -> None:
        self._last_s.append(self._read())
        if len(self._last_s) >= MIN_TIMED_STEPS:
            self._step_s = median(self._last_s)

    def evaluated(self) -> None:
        self._used.evaluation_s = self._read()
        self._used.evaluated_s = self._used.used_s

    def saved(self) -> None:
        self._saving_s = self._read()

    def seconds_left(self) -> float:
        return self._end_s - self._used.used_s

    def rate(self, trainer: Trainer, step: int) -> float:
        done, rates = self.done_before(step), self._used.rates
        rate = trainer.learning_rate(step, done, self._warmup(step))
        self._rate = step, round(done, 5), rate
        if step & (step - 1) == 0 or abs(self._rate[1] - rates[-1][1]) >= 1 / RATES:
            rates.append(self._rate)
        return rate

    def done_before(self, step: int) -> float:
        return self._share(self._used.used_s)

    def evaluation_is_due(self, step: int) -> bool:
        """Whether another share of the time is over, unless the last evaluation was long or the end is near."""
        span, used = self._end_s - self._used.began_s, self._used
        is_next = int(self._share(used.used_s) * EVALUATIONS) > int(self._share(used.evaluated_s) * EVALUATIONS)
        gap_s = used.evaluation_s * (1 - MAX_EVALUATING) / MAX_EVALUATING
        return is_next and used.used_s - used.evaluated_s >= gap_s and self.seconds_left() > span / EVALUATIONS / 2

    def ends(self, step: int) -> bool:
        no_other_fits = self.seconds_left() <= 0 or self.seconds_left() < self._step_s
        if no_other_fits:
            self._used.ended_minutes = self._minutes
        ends = no_other_fits or super().ends(step)
        if ends and self._rate and self._rate not in self._used.rates:
            self._used.rates.append(self._rate)
        return ends

    def _read(self) -> float:
        """Reads the clock; returns the seconds since the last reading."""
        passed = self._world.broadcast_from_first(lambda: self._clock.now() - self._clock.began)
        before, self._used.used_s = self._used.used_s, self._before_s + passed
        return self._used.used_s - before

    @property
    def _end_s(self) -> float:
        """When training ends, so that the last evaluation and the export fit into the minutes."""
        # What would take over half of the minutes may have been timed on a busy machine, until the steps show it.
        exporting_s = min(self._clock.exporting_s, 60 * self._minutes / 2)
        if self._clock.step_s and self._step_s:  # the machine may have become slower
            exporting_s = max(exporting_s, self._clock.exporting_s * self._step_s / self._clock.step_s)
        return 60 * self._minutes - exporting_s - self._used.evaluation_s - self._saving_s

    def _share(self, used_s: float) -> float:
        began_s, end_s = self._used.began_s, self._end_s
        return 1.0 if used_s >= end_s else max(0.0, (used_s - began_s) / (end_s - began_s))

    def _warmup(self, step: int) -> int:
        """Steps of warm-up: the recipe's, or fewer if they are too large a part of the steps that fit."""
        used = self._used
        used.warmup = used.warmup or self.recipe.warmup
        if step <= used.warmup and self.done_before(step) >= MIN_TIMED and self._step_s:
            used.warmup = self._fitting_warmup(step, self._step_s)
        return used.warmup

    def _fitting_warmup(self, step: int, step_s: float) -> int:
        """Steps of warm-up for those that fit, if a step takes `step_s` seconds."""
        fitting = step + max(0.0, self.seconds_left()) / step_s
        return min(self.recipe.warmup, 1 + int(MAX_WARMUP * fitting))
