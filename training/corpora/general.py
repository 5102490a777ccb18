"""Our own general text in five languages: pairs that show what fine-tuning loses outside the user's field, and
sentences to rehearse.

The pairs and the English sentences were written for this purpose, so that a bundle may include them without licence
issues; the other sentences are translations of the English ones by the bundles of this repository.
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.languages import language_alone
from training.corpora.corpus import Pair

_PAIRS = Path(__file__).with_name("general.tsv")
_SENTENCES = Path(__file__).with_name("general_sentences")


def general_pairs(source: str, target: str) -> list[Pair]:
    """Our sentences in two languages, regardless of region, as pairs; empty if we do not have one of them."""
    header, *rows = (line.split("\t") for line in _PAIRS.read_text(encoding="utf-8").splitlines())
    codes = [language_alone(code) for code in (source, target)]
    if not set(codes) <= set(header):
        return []
    ours, theirs = map(header.index, codes)
    return [Pair(row[ours], row[theirs]) for row in rows]


def general_pairs_of(config: Mapping[str, Any]) -> list[Pair]:
    """The general pairs in a bundle's config.json, or ours in its languages if it has none. Raises ValueError if the
    field has the wrong type."""
    carried = config.get("general")
    if carried is None:
        return general_pairs(config["source"], config["target"])
    if not isinstance(carried, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(side, str) for side in pair) for pair in carried
    ):
        raise ValueError("general in config.json is not a list of text pairs")
    return [Pair(*pair) for pair in carried]


def general_sentences(language: str) -> list[str]:
    """Our distinct sentences in `language`, regardless of region; empty if we have none."""
    path = _SENTENCES / f"{language_alone(language)}.txt.xz"
    return lzma.decompress(path.read_bytes()).decode().splitlines() if path.exists() else []
