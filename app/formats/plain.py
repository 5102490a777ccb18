"""Plain text: passages of whole lines, or of paragraphs whose lines are joined, and wrapped again afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate

from app.formats.document import Content, Slot, content_of_slots, line_numbers
from app.formats.encodings import decode
from app.markup.passage import Passage
from app.text.line_breaks import LineBreaks, LogicalLine, logical_lines, rewrap

_TARGET_CHARS = 8_000
"""The target length of a passage in characters, if the text is that long and the limit allows."""
_SENTENCE_END = re.compile(r"[.!?…][)\]}\"'’”»]*\s+|[。！？][」』）》】’”\"]*")
_SPACE = re.compile(r"\s+")


def read(content: bytes, max_chars: int | None = None, line_breaks: LineBreaks = "auto") -> Content:
    """Raises UnreadableDocument. `max_chars`: the maximum number of characters of a passage; longer lines are cut."""
    text, encode = decode(content)
    line_number = line_numbers(text)
    groups = _groups(
        _cut_to_length(text, logical_lines(text, line_breaks), max_chars or len(text)), max_chars or len(text)
    )
    slots = []
    for group in groups:
        offsets = accumulate((len(line.text) for line in group), initial=0)
        lines = [(offset, line_number(line.start)) for offset, line in zip(offsets, group, strict=False)]
        passage = Passage("".join(line.text for line in group))
        slots.append(Slot(group[0].start, group[-1].end, passage, partial(rewrap, text, group), lines=lines))
    return content_of_slots(text, slots, encode)


def _groups(found: Iterator[LogicalLine], max_chars: int) -> Iterator[list[LogicalLine]]:
    """The lines of each passage."""
    group, length = list[LogicalLine](), 0
    for line in found:
        if group and (length + len(line.text) > max_chars or length >= _TARGET_CHARS):
            yield group
            group, length = [], 0
        group.append(line)
        length += len(line.text)
    if group:
        yield group


def _cut_to_length(text: str, found: Sequence[LogicalLine], max_chars: int) -> Iterator[LogicalLine]:
    """The lines, with those that are too long cut into parts."""
    for line in found:
        if len(line.text) <= max_chars:
            yield line
            continue
        start = line.start
        while line.end - start > max_chars:
            end = _cut_point(text, start, start + max_chars)
            yield LogicalLine(start, end, text[start:end])
            start = end
        yield LogicalLine(start, line.end, text[start : line.end])


def _cut_point(text: str, start: int, end: int) -> int:
    """After the last sentence end in [start, end), else after the last white space, else at its end."""
    for pattern in (_SENTENCE_END, _SPACE):
        if ends := [found.end() for found in pattern.finditer(text, start, end)]:
            return ends[-1]
    return end
