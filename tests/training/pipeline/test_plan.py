"""The plan of a run: what fits into the time, how it is described, and that loading restores it."""

import dataclasses
import json
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
from training.pipeline.plan import EXPORT_S, MAX_LOAD, PLAN, Plan, Timings, measure

pytestmark = pytest.mark.slow

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


def test_plan_by_the_clock_says_how_its_minutes_are_spent() -> None:
    recipe = Recipe(0, minutes=10, evaluate_every=0, batch_tokens=512)
    asked = plan(recipe=recipe, exporting=178.0)
    assert asked.describe(used_s=60) == [
        "the plan: architecture tiny, steps of 512 tokens, 10 minutes",
        "6 min are for training, 3 min for measuring and exporting; a step takes 0.5 s here",
    ]
    assert "2 min are for training after the 980 steps done" in asked.describe(980, 98, used_s=300)[1]
    limited = dataclasses.replace(asked, recipe=dataclasses.replace(recipe, steps=2000))
    assert limited.describe()[0].endswith("10 minutes or 2,000 steps, whichever ends first")
    assert asked.min_seconds == 180.5


def test_clock_of_a_plan_keeps_back_its_evaluation_and_export() -> None:
    clock = plan(exporting=20.0).clock(7.0)
    assert (clock.began, clock.exporting_s, clock.step_s, clock.evaluation_s) == (7.0, 20.0, 0.5, 2.0)


def test_export_takes_its_translations_and_longer_on_a_busy_processor() -> None:
    timings = Timings(0.5, 2.0, translation=0.01)
    idle = timings.exporting(1000, "cpu")
    assert idle == 10 + EXPORT_S["cpu"]
    assert dataclasses.replace(timings, load=3.0).exporting(1000, "cpu") == idle + 2 * EXPORT_S["cpu"]


timings_of = partial(measure, min_timed_s=0.0)


def test_measuring_times_real_steps(data: Path) -> None:
    pairs, record = load_pairs(data)
    development = Development.load(data, Limits())
    timings = timings_of(small_config(record["vocab_size"]), RECIPE, pairs, development, torch.device("cpu"))
    assert 0 < timings.step < 10
    assert 0 < timings.evaluation < 60
    assert 1 <= timings.load <= MAX_LOAD


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
