"""Numbers in a text: those that a translation must have, however it writes them, and the slots of a memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from model.languages import language_alone

LETTERS = r"A-Za-z0-9_\u00aa-\u1fff"
"""Letters of scripts with spaces between words; an ideograph may stand beside a number."""
_GROUPS = r"\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?:[.,]\d+)?"  # 10 000, with the spaces that keep it together
_NUMBER = re.compile(rf"(?<![{LETTERS}.,:/-])(?:{_GROUPS}|\d+(?:[.,:/-]\d+)+|\d+)(?![{LETTERS}])")
AS_WRITTEN = re.compile(
    r"\d++(?:(?:[.,:/'’-]|[ \u00a0\u2009\u202f](?=\d{3}(?!\d))|[ \u00a0\u202f]?h[ \u00a0\u202f]?)\d++)*+"
)
"""A number as a translation may write it: 4 h 30 for 4:30, 1 000 for 1,000."""
_GROUPED = re.compile(r"(\d{1,3}(?:([.,'’\s])\d{3}(?!\d))+|\d{1,2}(?:(,)\d\d)+,\d{3}|\d+)(?:([.,])(\d+))?")
"""The last groups but one may have two digits, as in India."""
_NON_DIGIT = re.compile(r"\D+")
_MAGNITUDE = re.compile(r"\s*[月千万萬亿億]")
_MAGNITUDE_CJK = re.compile(r"\s*(?:[月千万萬亿億]|(?:hundred|thousand|million|billion|trillion|dozen)\b)")
"""Words that change the number before them in translation: "3.5 million" is 350万, and 12月 is December."""
_MYRIAD_LANGUAGES = {"ja", "ko", "wuu", "yue", "zh"}


def find_written_numbers(text: str, target: str = "") -> Iterator[re.Match[str]]:
    """The numbers of `text` in digits that a translation into `target` may keep, in order."""
    return (number for number in _NUMBER.finditer(text) if not is_counted(text, number.end(), target))


def is_counted(text: str, end: int, target: str) -> bool:
    """Whether a word that follows at `end` changes the number before it in a translation into `target`."""
    magnitude = _MAGNITUDE_CJK if language_alone(target) in _MYRIAD_LANGUAGES else _MAGNITUDE
    return magnitude.match(text, end) is not None


def count_numbers(text: str) -> Counter[str]:
    """How often `text` has each number, as `normal_number` returns it."""
    return Counter(normal_number(match[0]) for match in AS_WRITTEN.finditer(text))


def normal_number(number: str) -> str:
    """A number, the same whatever separates its groups and its decimals."""
    grouped = _GROUPED.fullmatch(number)
    if grouped and (grouped[2] or grouped[3]) != grouped[4] and len(grouped[5] or "") != 3:
        return "-".join(filter(None, (_NON_DIGIT.sub("", grouped[1]), grouped[5])))
    return _NON_DIGIT.sub("-", number)
