"""Chooses architecture and recipe by corpus size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.config import ModelConfig, named_architecture
from training.data.batches import Pairs, epoch_rows
from training.optim.trainer import Recipe, TrainingError

EVALUATIONS = 25
"""Evaluations per run, so that a curve is readable and the last five, a fifth of the run, can be averaged."""
COOLDOWN = 0.25
BY_CLOCK = {"patience": 0, "keep": 1, "evaluate_every": 0}
"""For a recipe with `minutes`. At the end of a rate that falls to zero, there is nothing to average out.
`training.optim.trainer.Recipe` says why `patience` and `evaluate_every` are 0."""
BY_CLOCK_ALONE = {"steps": 0, "cooldown": 0.7}
"""Without steps as well, the rate does not fall before the cooldown, which is longer."""


@dataclass(frozen=True)
class Size:
    """Settings for a corpus of up to `pairs` pairs."""

    pairs: float
    architecture: str
    dropout: float
    batch_tokens: int
    epochs: float
    warmup: int
    learning_rate_factor: float


# A model that could learn a small corpus by heart does that instead of learning the language, hence smaller models with
# more dropout. A batch must be a small part of the corpus, or there are too few steps; a larger batch is steadier and
# faster. The peak rate, factor / sqrt(width * warm-up), is 0.002 to 0.005 for `tiny`, 0.0014 for `small` and 0.001 for
# `base`. Epochs are the most that still help; early stopping ends the rest.
SIZES = (
    Size(5_000, "tiny", dropout=0.3, batch_tokens=1024, epochs=30, warmup=200, learning_rate_factor=0.35),
    Size(50_000, "tiny", dropout=0.3, batch_tokens=2048, epochs=60, warmup=1000, learning_rate_factor=1.8),
    Size(500_000, "small", dropout=0.1, batch_tokens=2560, epochs=10, warmup=1000, learning_rate_factor=0.7),
    Size(math.inf, "small", dropout=0.1, batch_tokens=4096, epochs=5, warmup=2000, learning_rate_factor=1.0),
)
LARGEST_ON_GPU = Size(
    math.inf, "base", dropout=0.1, batch_tokens=16_384, epochs=10, warmup=4000, learning_rate_factor=1.4
)
"""From half a million pairs on, a GPU has the time for the paper's model; a CPU does not."""
FROM_PARENT = Size(math.inf, "small", dropout=0.1, batch_tokens=2560, epochs=10, warmup=300, learning_rate_factor=0.8)
"""A model that starts from one for other languages already knows much. Seven bundles that ship were made so, from
20,000 to 150,000 pairs each; not measured for other numbers or for shapes other than `small`."""


def size_for(pairs: int, gpu: bool) -> Size:
    """The table's row for a corpus of `pairs` pairs."""
    size = next(size for size in SIZES if pairs <= size.pairs)
    return LARGEST_ON_GPU if gpu and size is SIZES[-1] else size


def architecture_for(size: Size, vocab_size: int, max_tokens: int, **overrides: Any) -> ModelConfig:
    """The size's architecture with a shared vocabulary of `vocab_size` and positions for `max_tokens` and an end
    symbol. `overrides` of None are ignored; `architecture` is a name. Raises ValueError."""
    fields = {"dropout": size.dropout, "max_positions": max(512, max_tokens + 1)} | _given(overrides)
    name = fields.pop("architecture", size.architecture)
    return named_architecture(name, source_vocab_size=vocab_size, target_vocab_size=vocab_size, **fields)


def recipe_for(size: Size, pairs: Pairs, epochs: float | None = None, **overrides: Any) -> Recipe:
    """The size's recipe for `epochs` over `pairs`, or for `overrides["steps"]`; with `overrides["minutes"]` and neither
    of these, for as many steps as fit. `overrides` of None are ignored.

    Raises TrainingError for an invalid value.
    """
    chosen = {
        "batch_tokens": size.batch_tokens,
        "warmup": size.warmup,
        "learning_rate_factor": size.learning_rate_factor,
        "cooldown": COOLDOWN,
        "patience": 5,
        "seed": 1,
    }
    if overrides.get("minutes") is not None:
        chosen |= BY_CLOCK
        if epochs is None and overrides.get("steps") is None:
            chosen |= BY_CLOCK_ALONE
    recipe = recipe_of(pairs, size.epochs if epochs is None else epochs, EVALUATIONS, chosen | _given(overrides))
    few = size is FROM_PARENT and overrides.get("warmup") is None and recipe.steps > 0
    return warmed_within(recipe, 1 + recipe.steps // 4) if few else recipe


def recipe_of(pairs: Pairs, epochs: float, evaluations: int, fields: Mapping[str, Any]) -> Recipe:
    """A recipe of `fields` for `epochs` over `pairs` with this many `evaluations`, if `fields` lack `steps` or
    `evaluate_every`. Raises TrainingError for an invalid value."""
    if not 0 < epochs < math.inf:
        raise TrainingError(f"epochs must be above 0, not {epochs:g}")
    accumulate = max(1, fields.get("accumulate", 1))
    if (steps := fields.get("steps")) is None:
        batches = len(epoch_rows(pairs, max(1, fields["batch_tokens"]), fields["seed"], 0))
        steps = max(1, math.ceil(epochs * batches / accumulate))
    every = max(1, math.ceil(steps / evaluations))
    return Recipe(**{"steps": steps, "evaluate_every": every, "accumulate": accumulate, **fields})


def warmed_within(recipe: Recipe, steps: int) -> Recipe:
    """`recipe` with a warm-up of at most `steps`, and the same peak learning rate.

    Otherwise the peak would rise as the warm-up shortens (`training.optim.schedule`): in 240 steps of `tiny` with a
    warm-up of 31, a rate of up to 0.028 reached a development loss of 4.72, one held at 0.005 reached 4.35.
    """
    warmup = min(recipe.warmup, steps)
    factor = recipe.learning_rate_factor * math.sqrt(warmup / recipe.warmup)
    return dataclasses.replace(recipe, warmup=warmup, learning_rate_factor=factor)


def _given(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in overrides.items() if value is not None}
