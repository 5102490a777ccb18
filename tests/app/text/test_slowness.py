"""app/text/ and app/translation/: no text takes the front long, whatever is in it: a short search with
`benchmarks.slow_texts`, an hour of which is in `make soak`."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from app.translation.types import Options
from benchmarks.slow_texts import KINDS, SIZE, Lab, climb, described, faults, measure
from benchmarks.text_blocks import NUMBER, Block
from benchmarks.text_blocks import Blocks as Recipe

pytestmark = [pytest.mark.slow, pytest.mark.bundle]
STEPS = 4
KNOWN: list[tuple[str, Recipe]] = [
    ("deepl-whole", (Block(("Hello ",), 0), Block(("!",), 1), Block(("x",), 0))),
    ("deepl-whole", (Block(("Hello ",), 0), Block((".",), 1), Block(("x",), 0))),
    ("html", (Block(("Hello friend",), 1, ("<b>", "</b>")), Block((" and more",), 0))),
    ("text", (Block((f"q{NUMBER}\n",), 1),)),
    ("text", (Block(("ha ",), 1),)),
    ("text", (Block(("\u0301\u0316",), 1),)),
    ("glossary", (Block(("a ",), 1), Block((f"{NUMBER}A ",), 1))),
    ("pivot-html", (Block(("<p>1</p>",), 1),)),
    ("exact-memory", (Block(("\u0301\u0316",), 1),)),
    ("pivot-alignment", (Block(("\u2028", "A①1"), 1),)),
]
"""Kinds and recipes that were too slow once."""


@pytest.fixture(scope="module")
def lab() -> Lab:
    lab = Lab()
    for kind in KINDS:  # what is loaded at first use counts for no text
        measure(lab, kind, (Block(("Hello. ",), 1),), 50)
    return lab


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_takes_long(lab: Lab, kind: str) -> None:
    draw = Random(0 if os.environ.get("CI") else None)
    recipe = climb(lab, kind, draw, STEPS, SIZE // 8).recipe
    assert not faults(lab, kind, recipe, SIZE // 8), f"{kind}: {described(recipe)}"


@pytest.mark.parametrize(("kind", "recipe"), KNOWN)
def test_texts_that_took_long_take_little_time(lab: Lab, kind: str, recipe: Recipe) -> None:
    assert not faults(lab, kind, recipe, SIZE // 8), f"{kind}: {described(recipe)}"


WORDS = ["£5", "{name}", "The cat", "(21)", "Hello", "<b>", "</b>", "4:30", "12", "[1]", '"a"', "the", "cat."]
WORDS += ["%s", "Łódź", "Cat", "HELLO", "$", "*"]


def test_no_text_with_terms_fails_however_it_is_translated(lab: Lab) -> None:
    draw = Random(0 if os.environ.get("CI") else None)
    texts = ["4:30 </b> Hello", *(" ".join(draw.choices(WORDS, k=draw.randrange(1, 14))) for _ in range(100))]
    options = Options("en", "fr", glossary={"cat": "chat", "Hello": "Salut"})
    for mode in range(3):
        lab.decoder.mode = mode
        done = asyncio.run(lab.translator.translate(texts, options))  # raises what the code does not expect
        assert not any(item.error for item in done.items)
