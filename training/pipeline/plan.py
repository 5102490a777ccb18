"""The plan of a `run` and its duration: architecture and recipe for the corpus, timed on this machine, and stored.

A plan is made once, so that a run resumed later or elsewhere is still the same run.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.atomic_files import write_atomically
from model.config import ModelConfig
from training.data.batches import Pairs, Position, batches_from
from training.evaluation.scoring import Development
from training.optim.bpe_dropout import resegmenter
from training.optim.defaults import warmed_within
from training.optim.progress import duration
from training.optim.trainer import Recipe, Trainer, TrainingError

PLAN = "plan.json"
FORMAT_VERSION = 1
MIN_TIMED_S = 6.0
MIN_TIMED_STEPS = 5
"""Steps after which their speed is trusted; the first ones may be slow."""
_MAX_EVALUATIONS = 20
"""In a time-limited run; evaluations may take up to a fifth of the time."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Timings:
    """Seconds per step, per evaluation and per translated sentence on this machine."""

    step: float
    evaluation: float
    translation: float = 0.0


@dataclass(frozen=True)
class Plan:
    """Architecture and recipe of a run. `data`: the digest of the data's record; `asked`: the explicit choices."""

    data: str
    architecture: str
    config: ModelConfig
    recipe: Recipe
    timings: Timings
    asked: dict[str, Any] = field(default_factory=dict)
    exporting: float | None = None
    """Seconds for measuring and exporting. None in plans older than this field, which means three evaluations."""

    @property
    def save_every(self) -> int:
        """Steps between checkpoints, about half a minute."""
        return max(1, min(1000, int(30 / self.timings.step)))

    def seconds_left(self, done: int = 0, elapsed_s: float = 0.0) -> float:
        """Seconds left after `done` steps, which took `elapsed_s`, including the export, if training does not stop
        early."""
        left = max(0, self.recipe.steps - done)
        evaluations = math.ceil(left / self.recipe.evaluate_every)
        exporting = _export_seconds(self.timings, self.exporting)
        return left * self._step(done, elapsed_s) + evaluations * self.timings.evaluation + exporting

    def time_limit(self, ends: float) -> TimeLimit:
        """The time limit of a run by this plan that must be exported when the monotonic clock shows `ends`."""
        return TimeLimit(ends, self.timings, _export_seconds(self.timings, self.exporting))

    def describe(self, done: int = 0, elapsed_s: float = 0.0) -> list[str]:
        """The plan as lines of text, after `done` steps, which took `elapsed_s`."""
        steps = f"{self.recipe.steps:,} steps of {self.recipe.batch_tokens * self.recipe.accumulate:,} tokens"
        left = duration(self.seconds_left(done, elapsed_s))
        span = f"{left} left after the {done:,} steps done" if done else f"{left} in total"
        return [
            f"the plan: architecture {self.architecture}, at most {steps}",
            f"a step takes {self._step(done, elapsed_s):.2g} s here: about {span}, less if it stops improving earlier",
        ]

    def _step(self, done: int, elapsed_s: float) -> float:
        """Seconds per step: those of the completed steps, if any, since the machine may have been busy when timed."""
        return elapsed_s / done if elapsed_s else self.timings.step

    def save(self, folder: Path) -> None:
        fields = {**dataclasses.asdict(self), "format_version": FORMAT_VERSION}
        fields["speed"] = fields.pop("timings")
        write_atomically(folder / PLAN, (json.dumps(fields, indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Plan | None:
        """The plan in `folder`, if there is one. Raises TrainingError if it cannot be read."""
        if not (folder / PLAN).exists():
            return None
        try:
            fields: dict[str, Any] = json.loads((folder / PLAN).read_text(encoding="utf-8"))
            if fields.pop("format_version") != FORMAT_VERSION:
                raise ValueError("it was written by another version")
            config, recipe = ModelConfig.from_dict(fields.pop("config")), Recipe(**fields.pop("recipe"))
            return cls(config=config, recipe=recipe, timings=Timings(**fields.pop("speed")), **fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TrainingError(f"{folder / PLAN} cannot be read ({error}); delete it to plan again") from None


def measure(
    config: ModelConfig,
    recipe: Recipe,
    pairs: Pairs,
    development: Development,
    device: torch.device,
    initial: Mapping[str, Tensor] | None = None,
    min_timed_s: float = MIN_TIMED_S,
) -> Timings:
    """Times steps of the real model on the real data, segmented as in training, and one evaluation.

    Three steps at least, and as many as `min_timed_s` holds.
    """
    trainer = Trainer(config, recipe, device, teacher=initial if recipe.distil else None)
    resegment = resegmenter(recipe, config, development.tokenizers)
    batches = batches_from(pairs, config, recipe.batch_tokens, recipe.seed, Position(), resegment=resegment)

    def step() -> None:
        trainer.step([next(batches) for _ in range(recipe.accumulate)], trainer.learning_rate(1)).item()

    step()  # the first one also allocates
    started_at, steps = time.monotonic(), 0
    while steps < 3 or time.monotonic() - started_at < min_timed_s:
        step()
        steps += 1
    ended = time.monotonic()
    trainer.development_loss(development.pairs)
    # The untrained model decodes up to the limit, so the limit is set to a sentence's usual length.
    usual = dataclasses.replace(development, limits=dataclasses.replace(development.limits, ratio=1.2, margin=2))
    known = time.monotonic()
    translated = usual.translate(trainer.model, 500)
    last = time.monotonic()
    return Timings((ended - started_at) / steps, last - ended, (last - known) / len(translated))


def _export_seconds(timings: Timings, seconds: float | None) -> float:
    return 3 * timings.evaluation if seconds is None else seconds


def fit_within(recipe: Recipe, timings: Timings, seconds: float, exporting: float | None = None) -> Recipe | None:
    """`recipe` with as many steps as fit into `seconds`, including those of `exporting`, but no more than it has; None
    if not even one fits."""
    budget = seconds - _export_seconds(timings, exporting)
    wanted = math.ceil(recipe.steps / recipe.evaluate_every)
    if recipe.steps * timings.step + wanted * timings.evaluation <= budget:
        return recipe
    evaluations = max(1, min(wanted, _MAX_EVALUATIONS, int(budget / 5 / timings.evaluation)))
    steps = int((budget - evaluations * timings.evaluation) / timings.step)
    if steps < 1:
        return None
    steps = min(steps, recipe.steps)
    every = math.ceil(steps / evaluations)
    return warmed_within(dataclasses.replace(recipe, steps=steps, evaluate_every=every), 1 + steps // 8)


def within_minutes(
    minutes: float,
    started_at: float,
    recipe: Recipe,
    timings: Timings,
    sentences: int,
    timed: Callable[[], Timings],
    say: Say,
) -> tuple[Timings, Recipe]:
    """The timings and the recipe for the rest of `minutes`, at the end of which `sentences` are translated.

    If not even one step seems to fit, the machine may have been busy, and is timed again. If that does not help, the
    recipe stays, and the clock stops it.
    """

    def left() -> float:
        return 60 * minutes - (time.monotonic() - started_at)

    def fit(timings: Timings) -> Recipe | None:
        return fit_within(recipe, timings, left(), sentences * timings.translation)

    if fitted := fit(timings):
        return timings, fitted
    say("not even one step seems to fit: timing again, in case the machine was busy ...")
    timings = min(timings, timed(), key=lambda found: found.step)
    if fitted := fit(timings):
        return timings, fitted
    least = min_seconds(timings, sentences * timings.translation)
    say(
        f"warning: one step, its evaluation and the export seem to take {least:.0f} s here, and "
        f"{max(0.0, left()):.0f} s of --minutes {minutes:g} are left: the run exports what it has by then; more "
        "minutes make a better model"
    )
    return timings, recipe


def min_seconds(timings: Timings, exporting: float | None = None) -> float:
    """The shortest possible run: one step, its evaluation and the export."""
    return timings.step + timings.evaluation + _export_seconds(timings, exporting)


@dataclass(frozen=True)
class TimeLimit:
    """When a run must stop training so that it can be evaluated and exported in time."""

    ends: float
    """By `clock`, when everything must be done."""
    timings: Timings
    exporting: float
    """Seconds that the export takes if all is as fast as planned."""
    clock: Callable[[], float] = time.monotonic

    def reached(self, steps: int, elapsed_s: float) -> bool:
        """Whether no further step fits after `steps`, which took `elapsed_s`. Except for the first few, these show how
        much slower than planned everything is."""
        if steps < MIN_TIMED_STEPS:
            return self.clock() >= self.ends
        slower = elapsed_s / steps / self.timings.step
        return self.clock() + slower * min_seconds(self.timings, self.exporting) >= self.ends
