"""The formatting of runs of text in Office documents: which of it one sees, and its tags in a passage.

The formatting of most of a paragraph's text needs no tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lxml import etree

from app.formats.document import UnreadableDocument
from app.formats.passage_builder import PassageBuilder
from app.formats.xml_parts import Element, local_name

MAX_COPIED_CHARS = 256 << 20
"""Limit on the formatting, in characters, that is copied into paragraphs. Properties that occur once in a file are
copied to each run of a paragraph, and may be megabytes long."""


class RunFormat(NamedTuple):
    """A run's formatting: equal for runs that look the same."""

    of_text: bytes
    of_space: bytes


PLAIN = RunFormat(b"", b"")


@dataclass(frozen=True)
class FormatRules:
    """What properties mean, by the names of their elements and attributes."""

    ignored: frozenset[str]
    """Those that one does not see."""
    on_space: frozenset[str]
    """Those that one sees on white space."""

    def format_of(self, properties: Element | None) -> RunFormat:
        if properties is None:
            return PLAIN
        named = {f"{name!s}={value!s}".encode(): str(name) for name, value in properties.attrib.items()}
        named |= {etree.tostring(e, with_tail=False): local_name(e) for e in properties}
        seen = {text: name for text, name in named.items() if name not in self.ignored}
        of_space = (text for text, name in seen.items() if name in self.on_space)
        return RunFormat(b"".join(sorted(seen)), b"".join(sorted(of_space)))


class FormatTags:
    """Puts text into a passage, with tags around what is not in the `main` format.

    `opening` and `closing` return the text of a tag; `opening` takes the properties of the text in it.
    """

    def __init__(
        self,
        builder: PassageBuilder,
        main: RunFormat,
        opening: Callable[[Element | None], str],
        closing: Callable[[], str],
    ) -> None:
        self._builder, self._main, self._opening, self._closing = builder, main, opening, closing
        self._format = main
        self._key: object = None

    def add_text(self, text: str, format: RunFormat, properties: Element | None) -> None:
        """Adds a run's text. White space joins the text beside it unless it looks different."""
        if format.of_space != self._format.of_space or (format != self._format and text.strip()):
            self._switch(format, properties)
        self._builder.add_text(text)

    def end(self) -> None:
        """Returns to the main format."""
        self._switch(self._main, None)

    def _switch(self, format: RunFormat, properties: Element | None) -> None:
        if self._format not in (format, self._main):
            self._builder.close_tag(self._closing(), self._key)
        if format not in (self._format, self._main):
            self._key = object()
            self._builder.open_tag(self._opening(properties), self._key)
        self._format = format


def main_format(runs: Iterable[tuple[RunFormat, str]]) -> RunFormat:
    """The format of most of the text."""
    lengths: Counter[RunFormat] = Counter()
    for format, text in runs:
        lengths[format] += len(text.strip())
    return max(lengths, key=lambda key: lengths[key], default=PLAIN)


def character_count(properties: Element | None) -> int:
    """The approximate length of properties as text."""
    if properties is None:
        return 0
    return sum(
        len(text)
        for e in properties.iter()
        for text in (str(e.tag), e.text or "", *e.attrib.keys(), *e.attrib.values())
    )


def check_copied(counts: Iterable[int], limit: int = MAX_COPIED_CHARS) -> None:
    """Raises UnreadableDocument if paragraphs would copy more than `limit` characters of formatting."""
    if sum(counts) > limit:
        raise UnreadableDocument("The file has too much formatting.")
