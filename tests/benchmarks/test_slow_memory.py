"""A short search for pairs and queries that take a translation memory long, or much memory."""

from __future__ import annotations

import json
import os
import random

import pytest

from benchmarks.slow_memory import COSTS, MAX_BYTES, faults, memory, random_recipe, worst

STEPS = 5


@pytest.mark.slow
def test_no_small_pairs_and_query_take_long_or_much_memory() -> None:
    seed = "CI" if os.environ.get("CI") else str(random.randrange(1 << 32))
    for name, recipe in worst(seed, STEPS):
        assert faults(recipe) == [], f"{name}, seed {seed}: {json.dumps(recipe)}"


def test_a_recipe_makes_the_same_texts_each_time_and_keeps_to_its_size() -> None:
    for seed in range(20):
        pairs, query = random_recipe(random.Random(seed)).build()
        assert (pairs, query) == random_recipe(random.Random(seed)).build()
        assert len(query.encode()) + sum(len(text.encode()) for pair in pairs for text in pair) <= MAX_BYTES


def test_what_a_recipe_costs_is_measured() -> None:
    recipe = random_recipe(random.Random(1))
    assert all(cost(recipe) for cost in COSTS.values())
    assert memory(recipe).peak >= memory(recipe).kept > 0
