"""Plain text: passages of whole lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.documents.document import Content, Slot, slotted
from app.documents.encodings import decoded
from app.passage import Passage

_AT_ONCE = 8_000
"""Characters of a passage, at least, where there are more and so many are allowed."""
_SENTENCE_END = re.compile(r"[.!?…][)\]}\"'’”»]*\s+|[。！？][」』）】》’”\"]*")
_SPACE = re.compile(r"\s+")


def read(content: bytes, longest: int | None = None) -> Content:
    """Raises UnreadableDocument. `longest`: the most characters of a passage; a line that has more is cut."""
    text, encode = decoded(content)
    return slotted(text, _slots(text, longest or len(text)), encode)


def _slots(text: str, longest: int) -> list[Slot]:
    slots, start, end = [], 0, 0
    for place in _places(text, longest):
        if place - start > longest or end - start >= _AT_ONCE:
            slots.append(Slot(start, end, Passage(text[start:end])))
            start = end
        end = place
    return [*slots, Slot(start, end, Passage(text[start:end]))] if text else []


def _places(text: str, longest: int) -> Iterator[int]:
    """Where passages may end, at most so far from one another: the ends of lines, and places within longer ones."""
    start = end = 0
    for line in text.splitlines(keepends=True):
        end += len(line)
        while end - start > longest:
            start = _place_to_cut(text, start, start + longest)
            yield start
        start = end
        yield end


def _place_to_cut(text: str, start: int, end: int) -> int:
    """After the last sentence of [start, end), else after its last white space; where there is none, its end."""
    for pattern in (_SENTENCE_END, _SPACE):
        if places := [found.end() for found in pattern.finditer(text, start, end)]:
            return places[-1]
    return end
