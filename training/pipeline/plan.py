"""The plan of a `run` and its duration: architecture and recipe for the corpus, timed on this machine, and stored.

A plan is made once, so that a run resumed later or elsewhere is still the same run.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Mapping
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
from training.optim.clock import Clock
from training.optim.progress import duration
from training.optim.trainer import Recipe, Trainer, TrainingError

PLAN = "plan.json"
FORMAT_VERSION = 1
MIN_TIMED_S = 6.0
EXPORT_S = {"cpu": 8.0, "cuda": 20.0}
"""Seconds that an export takes besides translating, most of them to start the service: on an idle Zen 4 4 s, on an H100
14 s."""
MAX_LOAD = 10.0


@dataclass(frozen=True)
class Timings:
    """Seconds per step, per evaluation and per translated sentence on this machine."""

    step: float
    evaluation: float
    translation: float = 0.0
    load: float = 1.0
    """By how much other work slows this machine's processor down."""

    def exporting(self, sentences: int, device: str) -> float:
        """Seconds that an export takes that translates `sentences`."""
        return sentences * self.translation + EXPORT_S[device] * self.load


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
    def exporting_s(self) -> float:
        return 3 * self.timings.evaluation if self.exporting is None else self.exporting

    @property
    def save_every(self) -> int:
        """Steps between checkpoints, about half a minute."""
        return max(1, min(1000, int(30 / self.timings.step)))

    def seconds_left(self, done: int = 0, elapsed_s: float = 0.0) -> float:
        """Seconds left after `done` steps, which took `elapsed_s`, including the export, if training does not stop
        early."""
        left = max(0, self.recipe.steps - done)
        evaluations = math.ceil(left / self.recipe.evaluate_every)
        return left * self._step(done, elapsed_s) + evaluations * self.timings.evaluation + self.exporting_s

    @property
    def min_seconds(self) -> float:
        """The shortest possible run: one step, its evaluation and the export."""
        return self.timings.step + self.timings.evaluation + self.exporting_s

    def clock(self, began: float) -> Clock:
        """The clock of a command that began at `began`."""
        return Clock(began, time.monotonic, self.exporting_s, self.timings.step, self.timings.evaluation)

    def describe(self, done: int = 0, elapsed_s: float = 0.0, used_s: float = 0.0) -> list[str]:
        """The plan as lines of text, after `done` steps, which took `elapsed_s`, and `used_s` of its minutes."""
        steps = f"{self.recipe.steps:,} steps of {self.recipe.batch_tokens * self.recipe.accumulate:,} tokens"
        if self.recipe.minutes is not None:
            return self._describe_minutes(done, elapsed_s, used_s)
        left = duration(self.seconds_left(done, elapsed_s))
        span = f"{left} left after the {done:,} steps done" if done else f"{left} in total"
        return [
            f"the plan: architecture {self.architecture}, at most {steps}",
            f"a step takes {self._step(done, elapsed_s):.2g} s here: about {span}, less if it stops improving earlier",
        ]

    def _describe_minutes(self, done: int, elapsed_s: float, used_s: float) -> list[str]:
        assert self.recipe.minutes is not None
        tokens = f"{self.recipe.batch_tokens * self.recipe.accumulate:,} tokens"
        most = f" or {self.recipe.steps:,} steps, whichever ends first" if self.recipe.steps else ""
        training_s = max(0.0, 60 * self.recipe.minutes - used_s - self.timings.evaluation - self.exporting_s)
        used = f" after the {done:,} steps done" if done else ""
        return [
            f"the plan: architecture {self.architecture}, steps of {tokens}, {self.recipe.minutes:g} minutes{most}",
            f"{duration(training_s)} are for training{used}, {duration(self.exporting_s)} for measuring and exporting; "
            f"a step takes {self._step(done, elapsed_s):.2g} s here",
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
    started_at, busy, steps = time.monotonic(), time.thread_time(), 0
    while steps < 3 or time.monotonic() - started_at < min_timed_s:
        step()
        steps += 1
    ended, busy = time.monotonic(), time.thread_time() - busy
    load = (ended - started_at) / max(1e-9, busy) if device.type == "cpu" else 1.0  # while a GPU works, this waits
    trainer.development_loss(development.pairs)
    # The untrained model decodes up to the limit, so the limit is set to a sentence's usual length.
    usual = dataclasses.replace(development, limits=dataclasses.replace(development.limits, ratio=1.2, margin=2))
    known = time.monotonic()
    translated = usual.translate(trainer.model, 500)
    last = time.monotonic()
    translation, load = (last - known) / len(translated), min(max(1.0, load), MAX_LOAD)
    return Timings((ended - started_at) / steps, last - ended, translation, load)
