"""Cuts text into sentences to translate and what stands between them; together they are the text, to the character.

Knows characters and sentence ends; what a model can take, it is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import sentencex

WINDOW = 2_048
"""Characters looked at together: the splitter's time grows with the square. Well over any model's limit."""

_LINE = re.compile(r"[^\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
"""What may hold sentences. Line ends and tabs end every sentence, and stay where they are."""
_CLAUSE = re.compile(r"[,;:\u2013\u2014](?=\s)|[\u060c\u061b\u3001\uff0c\uff1a\uff1b]")
_SPACE = re.compile(r"\s+")
_ODD_SPACE = re.compile(r"[^\S ]")
_SPEECH = re.compile(r"[^\W_]")
"""What `str.isalnum` is true of."""
_ABBREVIATED = {
    "en": re.compile(r"(?:^|\W)(?:approx|eds?|est|vol)\.\s*$"),
    "fr": re.compile(
        r"(?:^|[\s(«“\"'’-])(?:[A-ZÉ]|MM|M[em]|Mmes?|M(?:gr|lles?)|Drs?|Prs?|Prof|Stes?|St|Sté|art|av|bd|dép|env|n[o°]"
        r"|janv|févr|juill|sept|oct|nov|déc)\.\s*$"
    ),
}
"""Where a full stop ends no sentence, beyond what the splitter knows."""


class Segment(NamedTuple):
    """A stretch of the text: a sentence without white space around it, or what is copied as it is."""

    text: str
    translate: bool


def segments(text: str, language: str) -> list[Segment]:
    """The segments of `text`, which joined are `text`.

    White space around sentences is copied, and so is what holds no letter and no digit: "***", "?", "😀".
    """
    found: list[Segment] = []
    end = 0
    for line in _LINE.finditer(text):
        if not _is_speech(line[0]):
            continue
        if end < line.start():
            found.append(Segment(text[end : line.start()], False))
        for sentence in _sentences(line[0], language):
            found.extend(_framed(sentence))
        end = line.end()
    if end < len(text):
        found.append(Segment(text[end:], False))
    return found


def cut(sentence: str, length: Callable[[str], int], limit: int) -> list[Segment]:
    """`sentence` in segments of at most `limit` by `length`, which joined are `sentence`.

    Cuts near the middle, again and again: after a clause mark, else at a space, else anywhere. A character that is
    over the limit by itself is copied.
    """
    if length(sentence) <= limit:
        return [Segment(sentence, True)]
    if len(sentence) == 1:
        return [Segment(sentence, False)]
    place = _place_to_cut(sentence)
    halves = [*_framed(sentence[:place]), *_framed(sentence[place:])]
    return [part for half in halves for part in (cut(half.text, length, limit) if half.translate else [half])]


def _sentences(line: str, language: str) -> Iterator[str]:
    """The sentences of one line, with the white space after each."""
    start = 0
    while start < len(line):
        window = line[start : start + WINDOW]
        lengths = _sentence_lengths(window, language)
        if start + len(window) < len(line):
            # The last one may go on; a sentence longer than the window is cut anyway.
            lengths = lengths[:-1] or [_place_to_cut(window)]
        for length in lengths:
            yield line[start : start + length]
            start += length


def _sentence_lengths(window: str, language: str) -> list[int]:
    # sentencex slices by bytes after white space that it takes for a single one, and panics at others.
    plain = _ODD_SPACE.sub(" ", window)
    abbreviated = _ABBREVIATED.get(language)
    lengths: list[int] = []
    goes_on = False
    for sentence in sentencex.segment(language, plain):
        if goes_on:
            lengths[-1] += len(sentence)
        else:
            lengths.append(len(sentence))
        goes_on = abbreviated is not None and abbreviated.search(sentence[-16:]) is not None
    assert sum(lengths) == len(window)
    return lengths


def _framed(stretch: str) -> Iterable[Segment]:
    core = stretch.strip()
    if core and core == stretch:
        return [Segment(core, _is_speech(core))]
    start = stretch.index(core)
    frame = [
        Segment(stretch[:start], False),
        Segment(core, _is_speech(core)),
        Segment(stretch[start + len(core) :], False),
    ]
    return [segment for segment in frame if segment.text]


def _is_speech(stretch: str) -> bool:
    return _SPEECH.search(stretch) is not None


def _place_to_cut(sentence: str) -> int:
    """After the clause mark nearest the middle, if in the middle half; else at a space there; else the middle."""
    middle, quarter = len(sentence) // 2, len(sentence) // 4
    for pattern in (_CLAUSE, _SPACE):
        places = [found.end() for found in pattern.finditer(sentence, quarter, len(sentence) - quarter)]
        if places:
            return min(places, key=lambda place: abs(place - middle))
    return max(1, middle)
