"""Where a stored text differs from a similar one."""

from __future__ import annotations

import pytest

from app.text.memory_difference import AlmostEqual, compare
from app.text.memory_slots import abstract


def compared(source: str, target: str, new: str) -> AlmostEqual | None:
    return compare(abstract(source, "en", "fr"), abstract(target, "fr", "en"), abstract(new, "en", "fr"))


@pytest.mark.parametrize(
    ("source", "new", "differs", "count"),
    [
        ("Open the red car", "Open the blue car", "red", 1),
        ("Open the red car", "Open the small blue car", "red", 2),
        ("Open the car", "Open the blue car", "", 1),
        ("Open the blue car", "Open the car", "blue", 0),
        ("Open the car", "Open the car.", "", 1),
        ("Open a car now", "Close a car later", "Open a car now", 4),
        ("Open the car", "Open  the car", "", 0),
    ],
)
def test_the_part_that_differs_is_found(source: str, new: str, differs: str, count: int) -> None:
    found = compared(source, "Traduction", new)
    assert found
    assert (found.source[found.start : found.end], found.new_tokens) == (differs, count)


def test_an_insertion_is_placed_before_what_follows_it() -> None:
    found = compared("Open the car", "Ouvrez la voiture", "Open the blue car")
    assert found
    assert found.source[found.start :] == "car"


def test_the_stored_pair_takes_the_values_of_the_text() -> None:
    found = compared(
        "Wait 30 s, {name}, for the red car", "Attendez {name} 30 s", "Wait 4500 s, {user}, for the blue car"
    )
    assert found
    assert (found.source, found.target) == ("Wait 4500 s, {user}, for the red car", "Attendez {user} 4500 s")
    assert found.source[found.start : found.end] == "red"


def test_a_translation_that_cannot_take_the_values_is_of_no_use() -> None:
    assert compared("Wait 30 s for the red car", "Attendez une demi-minute", "Wait 40 s for the blue car") is None
