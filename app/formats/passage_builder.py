"""Collects a passage while a document's inline content is walked: text, and what stands in it.

Knows no format. What opens and closes need not nest; what does not becomes marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from app.markup.passage import Kept, Passage, Tag, as_it_is


class Collector:
    """A passage on its way."""

    def __init__(self) -> None:
        self.length = 0
        self._text: list[str] = []
        self._kept: list[Kept] = []
        self._tags: list[Tag] = []
        self._opened: list[tuple[Hashable, int]] = []
        self._open_keys: Counter[Hashable] = Counter()

    def text(self, text: str) -> None:
        self._text.append(text)
        self.length += len(text)

    def keep(self, text: str, raw: str) -> None:
        """`raw` stays as it is; to the model it is something that was `text`, which is not empty."""
        self._kept.append(Kept(self.length, self.length + len(text), raw))
        self.text(text)

    def mark(self, raw: str, space: bool = False) -> None:
        self._tags.append(Tag(self.length, raw, "mark", space))

    def open(self, raw: str, key: Hashable) -> None:
        """Until it is closed, a mark."""
        self._opened.append((key, len(self._tags)))
        self._open_keys[key] += 1
        self.mark(raw)

    def close(self, raw: str, key: Hashable) -> None:
        """Whatever was opened since the last one under `key`, and is not closed, remains a mark."""
        if not self._open_keys[key]:
            self.mark(raw)
            return
        found = None
        while found != key:
            found, opening = self._opened.pop()
            self._open_keys[found] -= 1
        self._tags[opening] = self._tags[opening]._replace(kind="open")
        self._tags.append(Tag(self.length, raw, "close"))

    def passage(self, write: Callable[[str], str] = as_it_is) -> Passage | None:
        """None if there is nothing to translate: no letter but in what is kept."""
        whole = self.all(write)
        text = whole.text
        end, spoken = 0, False
        for start, stop in [*((kept.start, kept.end) for kept in self._kept), (len(text), len(text))]:
            spoken = spoken or any(map(str.isalpha, text[end:start]))
            end = stop
        return whole if spoken else None

    def all(self, write: Callable[[str], str]) -> Passage:
        return Passage("".join(self._text), tuple(self._kept), tuple(self._tags), write)
