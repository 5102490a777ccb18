"""Plain text: passages of whole lines, or of paragraphs whose lines are joined, and wrapped again afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate

from app.formats.document import Content, Slot, line_numbers, slotted
from app.formats.encodings import decoded
from app.markup.passage import Passage
from app.text.line_breaks import LineBreaks, Stretch, stretches, wrapped

_AT_ONCE = 8_000
"""The target length of a passage in characters, if the text is that long and the limit allows."""
_SENTENCE_END = re.compile(r"[.!?…][)\]}\"'’”»]*\s+|[。！？][」』）》】’”\"]*")
_SPACE = re.compile(r"\s+")


def read(content: bytes, longest: int | None = None, line_breaks: LineBreaks = "auto") -> Content:
    """Raises UnreadableDocument. `longest`: the maximum number of characters of a passage; longer lines are cut."""
    text, encode = decoded(content)
    line = line_numbers(text)
    groups = _groups(_fitting(text, stretches(text, line_breaks), longest or len(text)), longest or len(text))
    slots = []
    for group in groups:
        offsets = accumulate((len(stretch.text) for stretch in group), initial=0)
        lines = [(offset, line(stretch.start)) for offset, stretch in zip(offsets, group, strict=False)]
        passage = Passage("".join(stretch.text for stretch in group))
        slots.append(Slot(group[0].start, group[-1].end, passage, partial(wrapped, text, group), lines=lines))
    return slotted(text, slots, encode)


def _groups(found: Iterator[Stretch], longest: int) -> Iterator[list[Stretch]]:
    """The stretches of each passage."""
    group, length = list[Stretch](), 0
    for stretch in found:
        if group and (length + len(stretch.text) > longest or length >= _AT_ONCE):
            yield group
            group, length = [], 0
        group.append(stretch)
        length += len(stretch.text)
    if group:
        yield group


def _fitting(text: str, found: Sequence[Stretch], longest: int) -> Iterator[Stretch]:
    """The stretches, with those that are too long cut into parts."""
    for stretch in found:
        if len(stretch.text) <= longest:
            yield stretch
            continue
        start = stretch.start
        while stretch.end - start > longest:
            end = _place_to_cut(text, start, start + longest)
            yield Stretch(start, end, text[start:end])
            start = end
        yield Stretch(start, stretch.end, text[start : stretch.end])


def _place_to_cut(text: str, start: int, end: int) -> int:
    """After the last sentence end in [start, end), else after the last white space, else at its end."""
    for pattern in (_SENTENCE_END, _SPACE):
        if places := [found.end() for found in pattern.finditer(text, start, end)]:
            return places[-1]
    return end
