"""General text of our own in five languages: sentence pairs that show what a model loses outside its user's field, and
sentences of one language that it rehearses meanwhile.

Written for this, so that a bundle may carry it and nobody's licence is in the way. Knows text, and no model.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from model.languages import language_alone
from training.corpora.corpus import Pair

_PAIRS, _PARTS = (Path(__file__).with_name(f"general.{kind}") for kind in ("tsv", "toml"))
_JOINED, _SAID = 0.25, 0.1
"""Shares of the sentences that are two statements joined, and one that somebody says or thinks."""


def general_pairs(source: str, target: str) -> list[Pair]:
    """Our sentences in two languages, whatever their regions, each other's translations; none if one is not among
    ours."""
    header, *rows = (line.split("\t") for line in _PAIRS.read_text(encoding="utf-8").splitlines())
    codes = [language_alone(code) for code in (source, target)]
    if not set(codes) <= set(header):
        return []
    ours, theirs = map(header.index, codes)
    return [Pair(row[ours], row[theirs]) for row in rows]


def carried_pairs(config: Mapping[str, Any]) -> list[Pair]:
    """The general pairs that a bundle's config.json carries, or else ours in its languages. Raises ValueError for a
    field of another kind."""
    carried = config.get("general")
    if carried is None:
        return general_pairs(config["source"], config["target"])
    if not isinstance(carried, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(side, str) for side in pair) for pair in carried
    ):
        raise ValueError("general in config.json is not a list of pairs of texts")
    return [Pair(*pair) for pair in carried]


def general_sentences(language: str, count: int, seed: int = 1) -> list[str]:
    """`count` different sentences in `language`, put together from parts of our own; the same every time, and
    none for a language that we have none in. What they say need not make sense."""
    with open(_PARTS, "rb") as file:
        table = tomllib.load(file).get(language_alone(language))
    if table is None:
        return []
    marks: list[str] = table.pop("marks")
    space, stop, ask = marks
    statements: list[str] = table.pop("statements")
    parts: dict[str, list[str]] = {
        name: [" ".join(part.split()) for part in text.split("|")] for name, text in table.items()
    }
    drawing = Random(seed)

    def stated() -> str:
        kind = drawing.choice(statements)
        return space.join(drawing.choice(parts[part]) for part in kind.split())

    def sentence() -> str:
        chance, first = drawing.random(), stated()
        if chance < _JOINED:
            first = drawing.choice(parts["join"]).replace("...", first, 1).replace("...", stated(), 1)
        elif chance < _JOINED + _SAID:
            first = drawing.choice(parts["say"]).replace("...", first)
        return first

    whole = {ask.replace("...", _begun(question)): None for question in parts["question"]}
    whole |= {f"{_begun(clause)}{stop}": None for clause in parts["clause"]}
    while len(whole) < count:
        whole[f"{_begun(sentence())}{stop}"] = None
    return list(whole)[:count]


def _begun(sentence: str) -> str:
    """With a capital at its beginning."""
    return sentence[0].upper() + sentence[1:]
