"""Optional endings in brackets, as in "file(s)": the model gets the longer word, since it translates the brackets
badly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from model.languages import language_alone
from model.normalisation import PADDING

_ENDINGS = {"de": "n|en|e|er|s|nen|in|innen", "fr": "s|e|es|(?<=[ae]u[(])x"}
_DEFAULT_ENDINGS = "s|es"


@cache
def _pattern(language: str) -> re.Pattern[str]:
    endings = _ENDINGS.get(language_alone(language), _DEFAULT_ENDINGS)
    return re.compile(rf"(?<=[^\W\d_]{{2}})\(({endings})\)(?=s?(?!\w))(?!\.\w|\()", re.IGNORECASE)


def join_endings(parts: Sequence[str | int], language: str) -> list[str | int]:
    """The parts of a sentence with such endings joined to their words, at the same length, so that offsets stay
    valid."""
    pattern = _pattern(language)
    joined = rf"{PADDING}\1{PADDING}"
    return [pattern.sub(joined, part) if isinstance(part, str) and "(" in part else part for part in parts]
