"""Plain text: passages of whole lines, or of paragraphs whose lines are joined, and wrapped again afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate

from app.formats.document import Content, Slot, line_numbers, slotted
from app.formats.encodings import decoded
from app.markup.passage import Passage
from app.text.line_breaks import LineBreaks, LogicalLine, logical_lines, wrapped

_AT_ONCE = 8_000
"""The target length of a passage in characters, if the text is that long and the limit allows."""
_SENTENCE_END = re.compile(r"[.!?…][)\]}\"'’”»]*\s+|[。！？][」』）》】’”\"]*")
_SPACE = re.compile(r"\s+")


def read(content: bytes, longest: int | None = None, line_breaks: LineBreaks = "auto") -> Content:
    """Raises UnreadableDocument. `longest`: the maximum number of characters of a passage; longer lines are cut."""
    text, encode = decoded(content)
    line_number = line_numbers(text)
    groups = _groups(_fitting(text, logical_lines(text, line_breaks), longest or len(text)), longest or len(text))
    slots = []
    for group in groups:
        offsets = accumulate((len(line.text) for line in group), initial=0)
        lines = [(offset, line_number(line.start)) for offset, line in zip(offsets, group, strict=False)]
        passage = Passage("".join(line.text for line in group))
        slots.append(Slot(group[0].start, group[-1].end, passage, partial(wrapped, text, group), lines=lines))
    return slotted(text, slots, encode)


def _groups(found: Iterator[LogicalLine], longest: int) -> Iterator[list[LogicalLine]]:
    """The lines of each passage."""
    group, length = list[LogicalLine](), 0
    for line in found:
        if group and (length + len(line.text) > longest or length >= _AT_ONCE):
            yield group
            group, length = [], 0
        group.append(line)
        length += len(line.text)
    if group:
        yield group


def _fitting(text: str, found: Sequence[LogicalLine], longest: int) -> Iterator[LogicalLine]:
    """The lines, with those that are too long cut into parts."""
    for line in found:
        if len(line.text) <= longest:
            yield line
            continue
        start = line.start
        while line.end - start > longest:
            end = _place_to_cut(text, start, start + longest)
            yield LogicalLine(start, end, text[start:end])
            start = end
        yield LogicalLine(start, line.end, text[start : line.end])


def _place_to_cut(text: str, start: int, end: int) -> int:
    """After the last sentence end in [start, end), else after the last white space, else at its end."""
    for pattern in (_SENTENCE_END, _SPACE):
        if places := [found.end() for found in pattern.finditer(text, start, end)]:
            return places[-1]
    return end
