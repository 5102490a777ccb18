"""Searches for pairs and queries that take a translation memory long, or much memory.

    python -m benchmarks.slow_memory --minutes 60 --seed 7

A recipe makes some pairs, each perhaps put several times, and a query, of 4 KB together. A hill climb changes recipes
so that reading, indexing, finding equal and similar texts and comparing them takes as much work, or memory, as
possible. The worst may take 500 units of work (app/runtime/work_unit.py), which are about half a second, and 64 MB, and
no more than the index says. Anything else ends the program with the recipe.
"""

from __future__ import annotations

import gc
import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated, NamedTuple

import typer

from app.errors import InvalidFields
from app.formats.document import UnreadableDocument
from app.formats.memory_files import read_pairs
from app.runtime.work_unit import unit_seconds
from app.storage.translation_memory import checked_pairs
from app.text.memory_index import MIN_SIMILARITY, MemoryIndex, MemorySnapshot, Pair
from benchmarks.text_blocks import NUMBER, Blocks, changed_blocks, climb, random_blocks, text_of

MAX_BYTES, MAX_WORK, MAX_PEAK_BYTES = 4_096, 500, 64 << 20
MAX_CACHED_BYTES = 1 << 20
"""What all indexes together keep of the last texts, besides what they count."""
MAX_PAIRS, MAX_VERSIONS = 512, 3
LANGUAGES = [("en", "fr"), ("ru", "zh"), ("tr", "ar"), ("zh", "en")]
WORDS = """
    a b ab_c aB A1 A1-B a. .. a@b @ # #a [ ]( ) * ** _ ` ~ ~~~ < <a </a> &amp; & { } {a} {{a}} {a,plural, % %s %1$d
    %(a)s $a $( :a -- -a +1 1 12 1.2 1, 1/2 1:2 10- 0 07 100% 月 漢 字 文 я ж ก က 가 http://a www.a.com a.com a/b /a
    C:\\ v1.2 deadbeef1 ABC123 é \u0301 \u0316 \u0f73 \u3099 \U0001f600 \ufe0f \u2122 \ufffc ( [a](b) severalUsers one «
    - ' "
"""
PIECES = [*WORDS.split(), "\n", " ", "\u3000", "\r", "\u00ad", "\u200d", "10\u00a0000", *12 * [f"{NUMBER} "]]
"""What texts are made of; every second block or so has numbers."""


class Recipe(NamedTuple):
    """How to make pairs and a query."""

    pairs: int
    versions: int
    languages: int
    query_share: int
    texts: tuple[Blocks, Blocks, Blocks]
    """Of the pairs' texts, of their translations, of the query."""

    def build(self) -> tuple[list[tuple[str, str]], str]:
        query_size = MAX_BYTES * self.query_share // 8
        count = min(self.pairs, (MAX_BYTES - query_size) // 16)
        size = (MAX_BYTES - query_size) // count // 2
        source, target, query = self.texts
        text, translation = text_of(source, size - 3), text_of(target, size)
        return [(f"{text}{number}", translation) for number in range(count)], text_of(query, query_size)


class Memory(NamedTuple):
    """What a recipe takes, in bytes."""

    peak: int
    kept: int
    """Of the index."""
    size: int
    """What the index says that it takes."""


def run(recipe: Recipe) -> MemoryIndex:
    """What a service does with the pairs and the query."""
    pairs, query = recipe.build()
    index = MemoryIndex(*LANGUAGES[recipe.languages])
    with suppress(UnreadableDocument):
        read_pairs("a.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs).encode(), "en", "fr")
    checked: dict[str, Pair] = {}
    for each in pairs:
        with suppress(InvalidFields):
            checked.update(checked_pairs([each], 1.0, ""))
    for version in range(recipe.versions):
        for pair in checked.values():
            index.put(pair, version + 1)
        if index.is_wasteful:
            *_, compacted = index.compacted()
            index = compacted or index
    found = MemorySnapshot(index, recipe.versions)
    for text in (query, pairs[0][0]):
        found.exact(text)
        for match in found.fuzzy(text, 5, MIN_SIMILARITY):
            index.almost_equal(text, match)
    return index


def work(recipe: Recipe) -> float:
    """In units of processor time."""
    gc.collect()
    gc.disable()  # a collection would fall on some recipes and not on others
    start = time.process_time()
    run(recipe)
    gc.enable()
    return (time.process_time() - start) / unit_seconds()


def memory(recipe: Recipe) -> Memory:
    gc.collect()
    tracemalloc.start()
    try:
        index = run(recipe)
        kept, peak = tracemalloc.get_traced_memory()
        return Memory(peak, kept, index.size)
    finally:
        tracemalloc.stop()


def faults(recipe: Recipe) -> list[str]:
    """What is wrong with the cost of a recipe. Too much work is measured again, since a busy machine only ever adds to
    it."""
    found = []
    if (used := work(recipe)) > MAX_WORK and (used := min(work(recipe) for _ in range(4))) > MAX_WORK:
        found.append(f"it takes {used:.0f} units of work")
    peak, kept, size = memory(recipe)
    if peak > MAX_PEAK_BYTES:
        found.append(f"it takes {peak >> 20} MB")
    if kept > size + MAX_CACHED_BYTES:
        found.append(f"the index takes {kept:,} bytes, and says {size:,}")
    return found


def random_recipe(draw: random.Random) -> Recipe:
    texts = (random_blocks(draw, PIECES), random_blocks(draw, PIECES), random_blocks(draw, PIECES))
    if draw.random() < 0.5:  # so that the query is similar
        texts = (texts[0], texts[1], texts[0])
    pairs = round(MAX_PAIRS ** draw.random())
    return Recipe(pairs, draw.randint(1, MAX_VERSIONS), draw.randrange(len(LANGUAGES)), draw.randint(1, 7), texts)


def changed(recipe: Recipe, draw: random.Random) -> Recipe:
    """The recipe with something else in it."""
    fresh = random_recipe(draw)
    field = draw.choice([*Recipe._fields, *["texts"] * 5])
    if field != "texts":
        return recipe._replace(**{field: getattr(fresh, field)})
    texts, at = list(recipe.texts), draw.randrange(3)
    texts[at] = changed_blocks(texts[at], draw, PIECES)
    if draw.random() < 0.3:
        texts[2] = texts[0]
    return recipe._replace(texts=(texts[0], texts[1], texts[2]))


COSTS: dict[str, Callable[[Recipe], float]] = {
    "work": work,
    "memory": lambda recipe: memory(recipe).peak,
    "bytes that the index does not count": lambda recipe: (found := memory(recipe)).kept - found.size,
}


def worst(seed: int | str, steps: int) -> Iterator[tuple[str, Recipe]]:
    """The worst recipe of each kind of cost."""
    for name, cost in COSTS.items():
        draw = random.Random(f"{seed} {name}")
        yield name, climb(draw, steps, partial(random_recipe, draw), partial(changed, draw=draw), cost)[1]


def main(
    minutes: Annotated[float, typer.Option(help="Duration.")] = 60.0,
    steps: Annotated[int, typer.Option(help="Recipes of a climb")] = 200,
    seed: Annotated[int | None, typer.Option(help="Default: another one each time")] = None,
) -> None:
    until = time.monotonic() + 60 * minutes
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"seed {seed}; a unit of work takes {1000 * unit_seconds():.2f} ms")
    number, largest = 0, dict[str, float]()
    while time.monotonic() < until:
        for name, recipe in worst(f"{seed} {number}", steps):
            cost = COSTS[name](recipe)
            if cost > largest.get(name, float("-inf")):
                largest[name] = cost
                print(f"{name}: {cost:,.3f} {json.dumps(recipe)}", flush=True)
            if wrong := faults(recipe):
                raise SystemExit("; ".join([*wrong, json.dumps(recipe)]))
        number += 1


if __name__ == "__main__":
    typer.run(main)
