"""Recipes by corpus size; given options override them."""

import math

import pytest
from shared_fixtures import PAIRS

from training.data.batches import Pairs, epoch_rows
from training.optim.defaults import (
    EVALUATIONS,
    FROM_PARENT,
    LARGEST_ON_GPU,
    SIZES,
    architecture_for,
    recipe_for,
    size_for,
)
from training.optim.schedule import noam
from training.optim.trainer import Recipe, TrainingError

SMALL = Pairs.of([[5] * 6 for _ in PAIRS], [[5] * 8 for _ in PAIRS])


def test_more_pairs_never_get_a_smaller_model_or_batch() -> None:
    sizes = [size_for(pairs, gpu=False) for pairs in (1, 2_000, 30_000, 150_000, 10_000_000)]
    assert [size.architecture for size in sizes] == ["tiny", "tiny", "tiny", "small", "small"]
    assert [size.batch_tokens for size in sizes] == sorted(size.batch_tokens for size in sizes)
    assert [size.dropout for size in sizes] == sorted((size.dropout for size in sizes), reverse=True)


def test_only_the_largest_corpora_have_other_defaults_on_a_gpu() -> None:
    assert size_for(10_000_000, gpu=True) is LARGEST_ON_GPU
    assert all(size_for(int(size.pairs), gpu=True) is size for size in SIZES if size.pairs < math.inf)


def test_steps_follow_from_epochs_and_evaluations_are_spread_over_them() -> None:
    size = SIZES[0]
    batches = len(epoch_rows(SMALL, size.batch_tokens, 1, 0))
    recipe = recipe_for(size, SMALL)
    assert recipe.steps == size.epochs * batches
    assert recipe_for(size, SMALL, epochs=0.5).steps == math.ceil(batches / 2)
    assert recipe_for(size, SMALL, epochs=4, accumulate=3).steps == math.ceil(4 * batches / 3)
    assert math.ceil(recipe.steps / recipe.evaluate_every) <= EVALUATIONS


def test_given_values_override_defaults_and_none_does_not() -> None:
    recipe = recipe_for(SIZES[0], SMALL, steps=7, warmup=None, keep=2, patience=0)
    assert (recipe.steps, recipe.warmup, recipe.keep, recipe.patience) == (7, SIZES[0].warmup, 2, 0)
    config = architecture_for(SIZES[0], 400, 256, dropout=None, norm="post", architecture="toy")
    assert (config.dropout, config.norm, config.d_model) == (SIZES[0].dropout, "post", 128)


def test_minutes_alone_leave_the_steps_to_the_clock_and_beside_epochs_are_a_limit() -> None:
    alone = recipe_for(SIZES[0], SMALL, minutes=5.0)
    assert (alone.steps, alone.cooldown, alone.keep) == (0, 0.7, 1)
    assert (alone.evaluate_every, alone.patience, alone.warmup) == (0, 0, SIZES[0].warmup)
    by_steps = recipe_for(SIZES[0], SMALL, epochs=2.0)
    both = recipe_for(SIZES[0], SMALL, epochs=2.0, minutes=5.0)
    assert (both.steps, both.cooldown) == (by_steps.steps, by_steps.cooldown)
    assert recipe_for(FROM_PARENT, SMALL, minutes=5.0).warmup == FROM_PARENT.warmup
    with pytest.raises(TrainingError, match="patience cannot be used with minutes"):
        recipe_for(SIZES[0], SMALL, minutes=5.0, patience=2)


def test_with_a_parent_few_pairs_still_reach_the_peak_learning_rate() -> None:
    many, few = (recipe_for(FROM_PARENT, SMALL, steps=steps) for steps in (5000, 60))
    assert (many.warmup, many.learning_rate_factor) == (FROM_PARENT.warmup, FROM_PARENT.learning_rate_factor)

    def highest(recipe: Recipe) -> float:
        fields = recipe.warmup, recipe.learning_rate_factor, recipe.steps, recipe.cooldown
        return max(noam(step, 256, *fields) for step in range(1, recipe.steps + 1))

    assert highest(few) == pytest.approx(highest(many))
    assert recipe_for(FROM_PARENT, SMALL, steps=60, warmup=40).warmup == 40


def test_positions_reach_the_longest_allowed_pair() -> None:
    assert architecture_for(SIZES[0], 400, 256).max_positions == 512
    assert architecture_for(SIZES[0], 400, 1000).max_positions == 1001


@pytest.mark.parametrize("wrong", [{"accumulate": 0}, {"batch_tokens": 0}, {"steps": 0}, {"epochs": -1.0}])
def test_impossible_values_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(TrainingError):
        recipe_for(SIZES[0], SMALL, **wrong)
