"""Numbers in a text, as both the required numbers of a translation and the slots of a translation memory see them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.languages import language_alone

_GROUPS = r"\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?"
"""A number in groups of three: 10 000, with the spaces that keep it together."""
_LETTERS = r"A-Za-z0-9_\u00aa-\u1fff"
"""Letters of scripts with spaces between words; an ideograph may stand beside a number."""


def _pattern(letter: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![{letter}.,:/-])(?:{_GROUPS}|\d+(?:[.,:/-]\d+)+|\d+)(?![{letter}])")


_NUMBER, _NUMBER_AMONG_IDEOGRAPHS = _pattern(r"\w"), _pattern(_LETTERS)
_MAGNITUDE = re.compile(r"\s*[月千万萬亿億]")
_MAGNITUDE_CJK = re.compile(r"\s*(?:[月千万萬亿億]|(?:hundred|thousand|million|billion|trillion|dozen)\b)")
"""Words that change the number before them in translation: "3.5 million" is 350万, and 12月 is December."""
_MYRIAD_LANGUAGES = {"ja", "ko", "wuu", "yue", "zh"}


def find_written_numbers(text: str, target: str = "", among_ideographs: bool = False) -> Iterator[re.Match[str]]:
    """The numbers of `text` in digits that a translation into `target` may keep, in order."""
    pattern = _NUMBER_AMONG_IDEOGRAPHS if among_ideographs else _NUMBER
    return (number for number in pattern.finditer(text) if not is_counted(text, number.end(), target))


def is_counted(text: str, end: int, target: str) -> bool:
    """Whether a word that follows at `end` changes the number before it in a translation into `target`."""
    magnitude = _MAGNITUDE_CJK if language_alone(target) in _MYRIAD_LANGUAGES else _MAGNITUDE
    return magnitude.match(text, end) is not None
