"""Finds what plain text has in place of tags: pairs of symbols, such as `<b>` and `</b>`, and tabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from operator import attrgetter
from typing import Literal

from app.markup.passage import OBJECT, Passage, Tag, tag_pairs
from app.text.symbols import is_direction, is_symbol, nesting_pairs
from app.text.word_tags import without_characters
from app.text.word_units import is_word_boundary

_BESIDE = frozenset(".,;:!?()\"'“”„«»‘’")
"""Punctuation that may stand on the other side of a symbol that touches a word."""
_WHITE_SPACE, _place = re.compile(r"\s+"), attrgetter("at")


def symbols_as_tags(passage: Passage) -> tuple[Passage, Sequence[tuple[int, int]]]:
    """A sentence in which pairs of symbols, such as `<b>` and `</b>`, and symbols that touch a word, such as the star
    of "Name*", are tags instead of protected text, and where they were and their lengths: see
    `Sentence.tagged_symbols`.

    A model reads the words in a pair of symbols as names, and copies them; without, it translates them.
    """
    if not (kinds := _kinds(passage) if passage.protected else {}):
        return passage, ()
    marked = [(number, passage.protected[number]) for number in sorted(kinds)]
    tags = sorted([*passage.tags, *(Tag(one.start, one.raw, kinds[number]) for number, one in marked)], key=_place)
    protected = [one for number, one in enumerate(passage.protected) if number not in kinds]
    removed = [(one.start, one.end) for _, one in marked]
    without = without_characters(replace(passage, protected=tuple(protected), tags=tuple(tags)), removed)
    upto = accumulate(end - start for start, end in removed)
    return without, [(end - size, end - start) for (start, end), size in zip(removed, upto, strict=True)]


def _kinds(passage: Passage) -> dict[int, Literal["open", "close", "mark"]]:
    """What the protected spans are that become tags, by number."""
    text = passage.text
    kinds: dict[int, Literal["open", "close", "mark"]] = {}
    for first, last in nesting_pairs(text, passage.protected):
        start, end = passage.protected[first].end, passage.protected[last].start
        if text[start:end].strip() and _is_nested(passage.tags, start, end):
            kinds |= {first: "open", last: "close"}
    for number, one in enumerate(passage.protected):
        shown, sides = text[one.start : one.end], (text[one.start - 1 : one.start], text[one.end : one.end + 1])
        if number not in kinds and is_symbol(shown) and shown != OBJECT:
            touched = [side.isalpha() and not is_word_boundary(side) for side in sides]
            beside = [is_word_boundary(side) or side in _BESIDE for side in sides]
            if is_direction(shown) or (touched[0] and beside[1]) or (touched[1] and beside[0]):
                kinds[number] = "mark"
    return kinds


def _is_nested(tags: Sequence[Tag], start: int, end: int) -> bool:
    """Whether an element around the characters [start, end) would nest with `tags`."""
    inside = [tag for tag in tags if start <= tag.at <= end and tag.kind != "mark"]
    return 2 * len(list(tag_pairs(inside))) == len(inside)


def with_tab_tags(passage: Passage) -> Passage:
    """Adds a tag for the tab in each run of white space, so that the translation has a tab in the same place."""
    if "\t" not in passage.text:
        return passage
    taken = {tag.at for tag in passage.tags}.union(*(range(one.start, one.end) for one in passage.protected))
    found = (run.start() + run[0].index("\t") for run in _WHITE_SPACE.finditer(passage.text) if "\t" in run[0])
    tabs = (Tag(at, "\t", space=True) for at in found if at not in taken)
    return replace(passage, tags=tuple(sorted([*passage.tags, *tabs], key=_place)))
