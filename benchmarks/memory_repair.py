"""Measures what repairing similar translations gains, on pairs that a memory does not have.

    INTERLINEAR_TRANSLATION_MEMORY=/tmp/memory.sqlite interlinear serve
    python -m benchmarks.memory_repair --pairs laws.tsv --source en --target fr --url http://127.0.0.1:8000

The pairs are shuffled, and the first ones remembered. The others count if a similar text is remembered and no equal
one. Their references tell how good three translations are: the model's, that of the similar pair, and the repaired
one, each over the texts that are repaired with that tolerance.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import httpx
import sacrebleu
import typer
from rapidfuzz.distance import Levenshtein

from app.text.memory_slots import normalise
from app.translation.memory import MIN_REPAIRABLE_PERCENTAGE
from benchmarks.memory_replay import BATCH, TIMEOUT_S, read_pairs

PAIRS_PER_PUT = 5_000
MAX_CHARS = 300
SEED = 5


class Case(NamedTuple):
    """A text, its reference, and the translation of the most similar text."""

    text: str
    reference: str
    similar: str


class Gain(NamedTuple):
    """Over the texts that were repaired: chrF, and edits per 100 characters of the reference, of each translation."""

    cases: int
    repaired: int
    better: int
    """With fewer edits than the model's own translation."""
    worse: int
    plain: tuple[float, float]
    similar: tuple[float, float]
    made: tuple[float, float]


def remember(client: httpx.Client, pairs: Sequence[tuple[str, str]], direction: dict[str, str]) -> None:
    for start in range(0, len(pairs), PAIRS_PER_PUT):
        part = [{"text": text, "translation": made} for text, made in pairs[start : start + PAIRS_PER_PUT]]
        client.put("/memory", json={**direction, "pairs": part}).raise_for_status()


def find_cases(
    client: httpx.Client, pairs: Iterable[tuple[str, str]], direction: dict[str, str], count: int
) -> list[Case]:
    found: list[Case] = []
    for text, reference in pairs:
        if len(text) > MAX_CHARS:
            continue
        answer = client.get("/memory/search", params={**direction, "text": text, "limit": 1}).raise_for_status().json()
        matches = answer["matches"]
        if answer["exact"] is None and matches and matches[0]["percentage"] >= MIN_REPAIRABLE_PERCENTAGE:
            found.append(Case(normalise(text), normalise(reference), matches[0]["translation"]))
            if len(found) == count:
                break
    return found


def translate(client: httpx.Client, texts: Sequence[str], fields: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for start in range(0, len(texts), BATCH):
        body = {**fields, "text": texts[start : start + BATCH]}
        items += client.post("/translate", json=body).raise_for_status().json()["translations"]
    return items


def gain(cases: Sequence[Case], plain: Sequence[dict[str, Any]], items: Sequence[dict[str, Any]]) -> Gain:
    """`plain`, `items`: the answers without the memory and with repairs."""
    chosen = [each for each in zip(cases, plain, items, strict=True) if each[2]["memory"] == "repaired"]
    references = [case.reference for case, *_ in chosen]
    edits = [[Levenshtein.distance(item["text"], case.reference) for item in both] for case, *both in chosen]
    return Gain(
        len(cases),
        len(chosen),
        sum(after < before for before, after in edits),
        sum(after > before for before, after in edits),
        _scores([item["text"] for _, item, _ in chosen], references),
        _scores([case.similar for case, *_ in chosen], references),
        _scores([item["text"] for *_, item in chosen], references),
    )


def _scores(texts: Sequence[str], references: Sequence[str]) -> tuple[float, float]:
    if not texts:
        return 0.0, 0.0
    edits = sum(Levenshtein.distance(text, reference) for text, reference in zip(texts, references, strict=True))
    return sacrebleu.CHRF().corpus_score(texts, [references]).score, 100 * edits / sum(map(len, references))


def main(
    pairs: Annotated[Path, typer.Option(help="Lines of a text, a tab and its translation, perhaps .xz")],
    source: Annotated[str, typer.Option()],
    target: Annotated[str, typer.Option()],
    url: Annotated[str, typer.Option(help="A service with an empty translation memory, which this fills")],
    known: Annotated[int, typer.Option(help="Pairs to remember")] = 20_000,
    count: Annotated[int, typer.Option(help="Texts to translate")] = 400,
    tolerance: Annotated[tuple[float, float, float], typer.Option(help="Three values of `repair_tolerance`")] = (
        0.0,
        0.3,
        1.0,
    ),
) -> None:
    found = list(islice(read_pairs(pairs), 4 * known))
    random.Random(SEED).shuffle(found)
    direction = {"source": source, "target": target}
    with httpx.Client(base_url=url, timeout=TIMEOUT_S) as client:
        remember(client, found[:known], direction)
        cases = find_cases(client, found[known:], direction, count)
        texts = [case.text for case in cases]
        plain = translate(client, texts, {**direction, "memory": "off"})
        for value in tolerance:
            fields = {**direction, "memory": "repair", "repair_tolerance": value}
            done = gain(cases, plain, translate(client, texts, fields))
            print(
                f"tolerance {value}: {done.repaired} of {done.cases} repaired, {done.better} better, {done.worse} "
                "worse; chrF and edits per 100 characters: "
                f"model {done.plain[0]:.1f} {done.plain[1]:.1f}, similar pair {done.similar[0]:.1f} "
                f"{done.similar[1]:.1f}, repaired {done.made[0]:.1f} {done.made[1]:.1f}"
            )


if __name__ == "__main__":
    typer.run(main)
