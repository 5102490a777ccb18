"""Plain text: passages of whole lines."""

from __future__ import annotations

from app.documents.document import Content, Slot, slotted
from app.documents.encodings import decoded
from app.passage import Passage

_AT_ONCE = 8_000
"""Characters of a passage, at least, where there are more: well under the limit of a text. A line is never cut."""


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decoded(content)
    return slotted(text, _slots(text), encode)


def _slots(text: str) -> list[Slot]:
    slots, start, end = [], 0, 0
    for line in text.splitlines(keepends=True):
        end += len(line)
        if end - start >= _AT_ONCE or end == len(text):
            slots.append(Slot(start, end, Passage(text[start:end])))
            start = end
    return slots
