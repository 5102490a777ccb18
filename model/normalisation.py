r"""Normalises source text, white space, invisible characters and apostrophes, identically in training and serving.

Target text is not changed. Normalisation of both sides, such as canonical composition, is in the SentencePiece model.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import groupby
from typing import Literal

Punctuation = Literal["moses"]
"""A normaliser of punctuation that an imported model needs."""
SPACE = " "
APOSTROPHE = "'"

INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f" + "".join(
    map(chr, [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
)
"""Soft hyphens, zero-width spaces, word joiners, direction marks: they only affect layout."""
PADDING = "\u200b"
"""Pads replaced text to its length, so that offsets stay valid; normalisation removes it."""
_JOINING = (
    r"\u0600-\u1cff\u2190-\u2bff\ua800-\uabff\ufb50-\ufdff\ufe0f\ufe70-\ufefe\U00010a00-\U00011fff\U0001e900-\U0001faff"
)
"""Arabic, the scripts of India and South-East Asia, and emoji: after one of these a joiner is part of the spelling.
Persian می‌خواهم has a zero-width non-joiner, and a family emoji is several emoji with joiners between them."""
_UNSEEN = rf"[\s{INVISIBLE}\u200c\u200d]"
_RUN = rf"(?:[\s{INVISIBLE}]|(?<![{_JOINING}])[\u200c\u200d]){_UNSEEN}*"
_UNSPACED = r"\u3001-\u303f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
"""Ideographs, kana and their punctuation: a blank between two of them is not part of the writing."""
_COMPATIBLE = r"\u0132\u0133\u0149\u017f\u01c4-\u01cc\u01f1-\u01f3\ufb00-\ufb06\U0001d400-\U0001d7ff"
"""Ligatures, and letters in bold or italics that mathematics has."""
_CHANGED = re.compile(
    rf"(?P<nothing>(?<=[{_UNSPACED}]){_UNSEEN}+(?=[{_UNSPACED}]))|(?! (?!{_UNSEEN}))(?P<run>{_RUN})"
    rf"|[‘’‛ʼ{_COMPATIBLE}]"
)
"""A run of blanks and invisible characters, except a single space; an apostrophe other than the typewriter's; a letter
that is another, or several, in a special form."""

_SHORT_CHARS = 256
"""In texts up to this length no run of marks is long enough to matter: composing takes a third of a millisecond."""
_COMPOSITE_MARKS = "\u0f73\u0f75\u0f81"
"""Marks that decompose, and whose own combining class is 0."""


def compose(text: str) -> str:
    """`text` in NFC, in time proportional to its length.

    `unicodedata.normalize` takes time quadratic in a run of combining marks, and holds the interpreter: 50,000 marks
    take three seconds. Here runs of marks are put in canonical order first, which does not change the result.
    """
    if len(text) > _SHORT_CHARS and not text.isascii():
        text = _mark_runs().sub(_in_canonical_order, text)
    return unicodedata.normalize("NFC", text)


def _in_canonical_order(run: re.Match[str]) -> str:
    characters = "".join([unicodedata.normalize("NFD", character) for character in run[0]])
    between_starters = groupby(characters, lambda character: not unicodedata.combining(character))
    return "".join([mark for _, marks in between_starters for mark in sorted(marks, key=unicodedata.combining)])


@cache
def _mark_runs() -> re.Pattern[str]:
    """Matches runs of more than 30 combining marks, which no language writes (Unicode's Stream-Safe Text Format)."""
    marks = "".join(filter(unicodedata.combining, map(chr, range(0x10000))))
    mark = f"[{marks}{_COMPOSITE_MARKS}\U00010000-\U0001ffff]"  # one range for all others: `re` tries each in turn
    return re.compile(f"{mark}{mark}{{30,}}")


def is_normal(text: str) -> bool:
    """Whether `normalise_source` certainly leaves `text` unchanged: usually so, and its pattern is slow."""
    return text.isascii() and text.isprintable() and "  " not in text


def normalise_source(text: str) -> str:
    """`text` as the model receives it: each run of blanks becomes one space, or nothing between ideographs; invisible
    characters are removed; apostrophes are plain, and ligatures are their letters."""
    if is_normal(text):
        return text
    return _CHANGED.sub(_plain, text)


def source_offsets(text: str) -> tuple[str, list[int]]:
    """`normalise_source(text)`, and for each n up to its length how much of `text` its first n characters represent.

    The first is 0 and the last is all of `text`: removed characters belong to the character after them.
    """
    parts: list[str] = []
    offsets = [0]
    done = 0
    for found in _CHANGED.finditer(text):
        start, end = found.span()
        plain = _plain(found)
        parts += [text[done:start], plain]
        offsets += [*range(done + 1, start + 1), *[end] * len(plain)]
        done = end
    offsets += range(done + 1, len(text) + 1)
    offsets[-1] = len(text)
    return "".join([*parts, text[done:]]), offsets


def _plain(found: re.Match[str]) -> str:
    if found.lastgroup == "run":
        return SPACE if any(map(str.isspace, found[0])) else ""
    if found.lastgroup == "nothing":
        return ""
    return APOSTROPHE if found[0] in "‘’‛ʼ" else unicodedata.normalize("NFKC", found[0])
