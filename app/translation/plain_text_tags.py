"""Finds what plain text has in place of tags: pairs of marks, such as `<b>` and `</b>`, and tabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from app.markup.passage import Passage, ProtectedSpan, Tag
from app.text.placeholders import nesting_pairs

_WHITE_SPACE = re.compile(r"\s+")


def marks_as_tags(passage: Passage) -> tuple[Passage, Sequence[tuple[int, int]]]:
    """A sentence in which pairs of marks, such as `<b>` and `</b>` in plain text, are tags instead of protected text,
    and where those marks were and their lengths: see `Sentence.marks`.

    A model reads the words in a pair of symbols as names, and copies them. Without symbols it translates them, and the
    tags go around what is aligned to them.
    """
    shown = [passage.text[one.start : one.end] for one in passage.protected] if len(passage.protected) > 1 else ()
    kinds: dict[int, Literal["open", "close"]] = {}
    for first, last in () if passage.tags else nesting_pairs(shown):
        if passage.text[passage.protected[first].end : passage.protected[last].start].strip():
            kinds |= {first: "open", last: "close"}
    if not kinds:
        return passage, ()
    text, done = "", 0
    tags, protected, marks = list[Tag](), list[ProtectedSpan](), list[tuple[int, int]]()
    for number, one in enumerate(passage.protected):
        text += passage.text[done : one.start]
        if number in kinds:
            tags.append(Tag(len(text), one.raw, kinds[number]))
            marks.append((len(text), one.end - one.start))
        else:
            protected.append(one._replace(start=len(text), end=len(text) + one.end - one.start))
            text += shown[number]
        done = one.end
    text += passage.text[done:]
    removed = [one for number, one in enumerate(passage.protected) if number in kinds]

    def moved(term: ProtectedSpan) -> ProtectedSpan:
        before = sum(one.end - one.start for one in removed if one.end <= term.start)
        return term._replace(start=term.start - before, end=term.end - before)

    terms = tuple(map(moved, passage.terms))
    return Passage(text, tuple(protected), tuple(tags), passage.write, terms=terms), marks


def with_tab_tags(passage: Passage) -> Passage:
    """Adds a tag for the tab in each run of white space, so that the translation has a tab in the same place."""
    if "\t" not in passage.text:
        return passage
    tags = {tag.at: tag for tag in passage.tags}
    found = (run.start() + run[0].index("\t") for run in _WHITE_SPACE.finditer(passage.text) if "\t" in run[0])
    outside = (at for at in found if at not in tags and not any(one.start <= at < one.end for one in passage.protected))
    tabs = [Tag(at, "\t", space=True) for at in outside]
    return replace(passage, tags=tuple(sorted([*passage.tags, *tabs], key=lambda tag: tag.at)))
