"""Common short texts of greetings and user interfaces, by language: letter statistics alone say little about them.
"Hello" has the letters of a Spanish word.

Includes languages that are often not served, so that their texts are not mistaken for another language's. A word of
several languages is listed with each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

MAX_WORDS = 4
"""Longer texts are identified by their letters alone."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_FOLDER = Path(__file__).with_name("listed")
"""A file of texts for each language, separated by commas."""


def _languages_of_texts() -> dict[str, frozenset[str]]:
    found = defaultdict[str, set[str]](set)
    for path in _FOLDER.glob("*.txt"):
        for text in path.read_text("utf-8").split(","):
            found[" ".join(text.split())].add(path.stem)
    return {text: frozenset(languages) for text, languages in found.items()}


_LANGUAGES_BY_TEXT = _languages_of_texts()
"""The languages of each text, keyed by the text in lower case."""


def listed_shares(text: str) -> dict[str, float]:
    """The languages in which `text` is listed here, each with the share of its words that are listed.

    Ignores case and punctuation. Empty for unknown or long texts.
    """
    words = [word.replace("’", "'") for word in _WORD.findall(text[:100].casefold())]
    if not words or len(words) > MAX_WORDS:
        return {}
    if whole := _LANGUAGES_BY_TEXT.get(" ".join(words)):
        return dict.fromkeys(whole, 1.0)
    shares = defaultdict[str, float](float)
    for word in words:
        for language in _LANGUAGES_BY_TEXT.get(word, ()):
            shares[language] += 1 / len(words)
    return shares
