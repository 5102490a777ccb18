"""Builds a passage from a document's inline content: its text, tags and protected parts.

Openings and closings need not nest; those that do not become marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from app.markup.passage import Passage, ProtectedSpan, Tag, write_plain


class PassageBuilder:
    """A passage under construction."""

    def __init__(self) -> None:
        self.length = 0
        self._text: list[str] = []
        self._protected: list[ProtectedSpan] = []
        self._tags: list[Tag] = []
        self._opened: list[tuple[Hashable, int]] = []
        self._open_keys: Counter[Hashable] = Counter()

    def add_text(self, text: str) -> None:
        self._text.append(text)
        self.length += len(text)

    def add_protected(self, text: str, raw: str) -> None:
        """Adds `raw`, which the translation keeps; the model sees `text`, which is not empty, in its place."""
        self._protected.append(ProtectedSpan(self.length, self.length + len(text), raw))
        self.add_text(text)

    def add_mark(self, raw: str, space: bool = False) -> None:
        self._tags.append(Tag(self.length, raw, "mark", space))

    def open_tag(self, raw: str, key: Hashable) -> None:
        """Opens a tag; until it is closed, it counts as a mark."""
        self._opened.append((key, len(self._tags)))
        self._open_keys[key] += 1
        self.add_mark(raw)

    def close_tag(self, raw: str, key: Hashable) -> None:
        """Closes the last tag opened under `key`. Tags opened since and still open remain marks."""
        if not self._open_keys[key]:
            self.add_mark(raw)
            return
        found = None
        while found != key:
            found, opening = self._opened.pop()
            self._open_keys[found] -= 1
        self._tags[opening] = self._tags[opening]._replace(kind="open")
        self._tags.append(Tag(self.length, raw, "close"))

    def build_translatable(self, write: Callable[[str], str] = write_plain) -> Passage | None:
        """The passage, or None if it has no letters outside protected text, and so nothing to translate."""
        passage = self.build(write)
        starts = [0, *(span.end for span in self._protected)]
        ends = [*(span.start for span in self._protected), self.length]
        unprotected = (passage.text[start:end] for start, end in zip(starts, ends, strict=True))
        return passage if any(any(map(str.isalpha, text)) for text in unprotected) else None

    def build(self, write: Callable[[str], str]) -> Passage:
        return Passage("".join(self._text), tuple(self._protected), tuple(self._tags), write)
