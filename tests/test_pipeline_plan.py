"""The plan of a run: what fits into the time, how it is described, and that loading restores it."""

import dataclasses
import json
import math
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from shared_fixtures import small_config

from model.hypothesis import Limits
from model.tokenizer import Tokenizer, Tokenizers
from training.data.batches import load_pairs
from training.evaluation.scoring import Development
from training.optim.trainer import Recipe, TrainingError
from training.pipeline.plan import PLAN, Plan, Timings, fit_within, measure, min_seconds

RECIPE = Recipe(steps=1000, warmup=200, evaluate_every=40, batch_tokens=512)
TIMINGS = Timings(step=0.5, evaluation=2.0)


def plan(**fields: Any) -> Plan:
    return Plan(
        **{
            "data": "d",
            "architecture": "tiny",
            "config": small_config(9),
            "recipe": RECIPE,
            "timings": TIMINGS,
            **fields,
        }
    )


def test_plan_round_trips(tmp_path: Path) -> None:
    assert Plan.load(tmp_path) is None
    plan().save(tmp_path)
    assert Plan.load(tmp_path) == plan()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format_version": 2}', '{"format_version": 1, "config": 3}'])
def test_a_damaged_plan_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / PLAN).write_text(text)
    with pytest.raises(TrainingError, match=r"plan\.json cannot be read .* delete it") as error:
        Plan.load(tmp_path)
    assert "\n" not in str(error.value)


def test_additional_or_missing_field_is_refused(tmp_path: Path) -> None:
    plan().save(tmp_path)
    fields = json.loads((tmp_path / PLAN).read_text())
    for changed in ({**fields, "more": 1}, {name: value for name, value in fields.items() if name != "data"}):
        (tmp_path / PLAN).write_text(json.dumps(changed))
        with pytest.raises(TrainingError, match="cannot be read"):
            Plan.load(tmp_path)


def test_remaining_time_counts_remaining_steps_and_evaluations() -> None:
    assert plan().seconds_left() == 1000 * 0.5 + (25 + 3) * 2
    assert plan().seconds_left(980) == 20 * 0.5 + (1 + 3) * 2
    assert "about 9 min in total" in plan().describe()[1]
    assert "left after the 980 steps done" in plan().describe(980)[1]
    assert plan().seconds_left(980, elapsed_s=98) == 20 * 0.1 + (1 + 3) * 2
    assert "a step takes 0.1 s here" in plan().describe(980, elapsed_s=98)[1]
    assert plan().seconds_left(1200) == 3 * 2


def test_run_is_saved_about_twice_a_minute() -> None:
    assert plan().save_every == 60
    assert plan(timings=Timings(60.0, 1.0)).save_every == 1
    assert plan(timings=Timings(0.001, 1.0)).save_every == 1000


@pytest.mark.parametrize("minutes", [0.25, 1, 3, 9])
def test_plan_limited_to_the_minutes_fits_and_uses_them(minutes: float) -> None:
    recipe = fit_within(RECIPE, TIMINGS, 60 * minutes)
    assert recipe is not None and recipe.steps < RECIPE.steps
    assert recipe.warmup < recipe.steps
    assert 0.8 * 60 * minutes <= plan(recipe=recipe).seconds_left() <= 60 * minutes
    highest = recipe.learning_rate_factor / math.sqrt(recipe.warmup)
    assert highest == pytest.approx(RECIPE.learning_rate_factor / math.sqrt(RECIPE.warmup))
    rate = RECIPE.learning_rate_factor
    assert dataclasses.replace(recipe, steps=1000, warmup=200, learning_rate_factor=rate, evaluate_every=40) == RECIPE


def test_ample_time_changes_nothing() -> None:
    assert fit_within(RECIPE, TIMINGS, 600) is RECIPE


def test_minutes_include_the_final_measurements() -> None:
    recipe, without = fit_within(RECIPE, TIMINGS, 300, exporting=200.0), fit_within(RECIPE, TIMINGS, 300)
    assert recipe is not None and without is not None
    assert recipe.steps < without.steps
    assert 0.8 * 300 <= plan(recipe=recipe, exporting=200.0).seconds_left() <= 300
    assert fit_within(RECIPE, TIMINGS, 180, exporting=200.0) is None
    assert min_seconds(TIMINGS, 200.0) == 202.5


def test_training_stops_while_there_is_time_for_evaluation_and_export() -> None:
    """At the speed of the steps so far, whatever the plan assumed: 8 minutes are 8 even if everything takes 3 times as
    long."""
    now = [0.0]
    limit = dataclasses.replace(plan(exporting=20.0).time_limit(480.0), clock=lambda: now[0])
    for seconds, slower in ((0.5, 1), (1.5, 3), (0.25, 0.5)):
        steps, now[0] = 0, 0.0
        while not limit.reached(steps, steps * seconds):
            steps, now[0] = steps + 1, now[0] + seconds
        ends = now[0] + slower * (TIMINGS.evaluation + 20.0)
        assert 480 - 2 * slower * TIMINGS.step <= ends <= 480


def test_slow_first_step_stops_nothing() -> None:
    limit = dataclasses.replace(plan(exporting=20.0).time_limit(480.0), clock=lambda: 60.0)
    assert not limit.reached(1, 60.0)
    assert dataclasses.replace(limit, clock=lambda: 480.0).reached(1, 60.0)


timings_of = partial(measure, min_timed_s=0.0)


def test_measuring_times_real_steps(data: Path) -> None:
    pairs, record = load_pairs(data)
    development = Development.load(data, Limits())
    timings = timings_of(small_config(record["vocab_size"]), RECIPE, pairs, development, torch.device("cpu"))
    assert 0 < timings.step < 10
    assert 0 < timings.evaluation < 60


def test_timed_steps_use_the_recipes_bpe_dropout(data: Path) -> None:
    pairs, _ = load_pairs(data)
    drawn = list[float]()

    class Noting(Tokenizer):
        def resegment(self, sequences: Any, dropout: float, random: Random) -> Any:
            drawn.append(dropout)
            return sequences

    tokenizer = Noting.load(data / "sentencepiece.model")
    development = dataclasses.replace(Development.load(data, Limits()), tokenizers=Tokenizers.joint(tokenizer))
    for recipe in (RECIPE, dataclasses.replace(RECIPE, bpe_dropout=0.1)):
        timings_of(small_config(tokenizer.vocab_size), recipe, pairs, development, torch.device("cpu"))
    assert len(drawn) >= 4 and set(drawn) == {0.1}
