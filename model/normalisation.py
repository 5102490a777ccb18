r"""What a source is to a model: blanks, what nobody sees, and apostrophes, by one rule for the trainer and the service.

Target text is not touched. What is done to both sides, such as canonical composition, is in the SentencePiece model.
"""

from __future__ import annotations

import re

SPACE = " "
APOSTROPHE = "'"

INVISIBLE = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f" + "".join(
    map(chr, [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])
)
"""Soft hyphen, zero-width spaces, word joiner, marks of direction: they only say how to set a line."""
_JOINING = (
    r"\u0600-\u1cff\u2190-\u2bff\ua800-\uabff\ufb50-\ufdff\ufe0f\ufe70-\ufefe\U00010a00-\U00011fff\U0001e900-\U0001faff"
)
"""Arabic to the scripts of India and South-East Asia, and emoji: a joiner after one of these is spelling. Persian
می‌خواهم has a zero-width non-joiner, and a family of emoji is several with joiners between them."""
_UNSEEN = rf"[\s{INVISIBLE}\u200c\u200d]"
_RUN = rf"(?:[\s{INVISIBLE}]|(?<![{_JOINING}])[\u200c\u200d]){_UNSEEN}*"
_UNSPACED = r"\u3001-\u303f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
"""Ideographs, kana and their punctuation: a blank between two of them is no part of the writing."""
_CHANGED = re.compile(
    rf"(?P<nothing>(?<=[{_UNSPACED}]){_UNSEEN}+(?=[{_UNSPACED}]))|(?! (?!{_UNSEEN}))(?P<run>{_RUN})|[‘’‛ʼ]"
)
"""A run of blanks and of what nobody sees, unless it is one space; an apostrophe that is not the typewriter's."""


def normalise_source(text: str) -> str:
    """`text` as the model is given it: each run of blanks one space, between ideographs none; without what nobody sees;
    apostrophes plain."""
    if text.isascii() and text.isprintable() and "  " not in text:  # most are, and the pattern looks at each character
        return text
    return _CHANGED.sub(_plain, text)


def source_offsets(text: str) -> tuple[str, list[int]]:
    """`normalise_source(text)`, and for each n to its length how much of `text` its first n characters stand for.

    The first is 0 and the last is all of `text`: what is dropped belongs to the character after it.
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
    return "" if found.lastgroup == "nothing" else APOSTROPHE
