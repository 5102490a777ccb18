"""The passages of a document as units: plain text, and numbered codes in the place of its markup.

What a format needs to write a passage stays with the document. Whoever translates or reviews a unit moves its codes and
cannot break them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from app.formats.document import TextLocation
from app.markup.passage import Passage, ProtectedSpan, Tag, resolve_references
from app.markup.render import render_source

_BEGIN, _END = "\ufdd0", "\ufdd1"
"""Noncharacters, which Unicode reserves for a process's internal use."""
_MARK = re.compile(f"{_BEGIN}([0-9]{{0,9}}){_END}")
"""The place of a code; without a number, the first noncharacter itself."""
CodeKind = Literal["open", "close", "mark"]


class Code(NamedTuple):
    """A tag or protected part of a passage; its number is its place among the passage's codes."""

    kind: CodeKind
    pair: int
    """The number of the code that opens the pair, or its own."""
    raw: str
    """In the document's own encoding; may refer to nested passages."""
    text: str
    """What it stands for, as far as it is text."""


@dataclass(frozen=True)
class Unit:
    """A passage to translate or review: one of the document's, or nested in one."""

    passage: Passage
    """With a reference to the code in the place of each raw part."""
    original: Passage
    codes: Sequence[Code]
    location: TextLocation

    @cached_property
    def source(self) -> str:
        """The source, with references to its codes."""
        return render_source(self.passage)


class Reviewed(NamedTuple):
    """A unit's translation, with references to its codes, and what is known of it."""

    target: str
    quality: float | None
    warnings: Sequence[str]
    words: Sequence[tuple[int, int]]
    """Doubtful words, as code points [start, end) of `target`, in order."""


def reference(number: int) -> str:
    """What stands for the code with this number."""
    return f"{_BEGIN}{number}{_END}"


def escape(text: str) -> str:
    """`text` such that nothing in it is a reference."""
    return text.replace(_BEGIN, _BEGIN + _END)


def split_codes(text: str, codes: Sequence[Code]) -> Iterator[str | int]:
    """The parts of a unit's translation, in order: text, and numbers of codes. What refers to none of `codes` is
    text."""
    for index, part in enumerate(_MARK.split(text)):
        if not index % 2:
            if part:
                yield part
        elif part and int(part) < len(codes):
            yield int(part)
        else:
            yield f"{_BEGIN}{part}{_END}" if part else _BEGIN


def units_of(passages: Sequence[Passage], locations: Sequence[TextLocation]) -> list[Unit]:
    """The passages in order, each followed by those nested in it."""
    return [unit for pair in zip(passages, locations, strict=True) for unit in _units(*pair)]


def _units(passage: Passage, location: TextLocation) -> Iterator[Unit]:
    codes = list[Code]()
    protected, tags, opened = list[ProtectedSpan](), list[Tag](), list[int]()
    # In the order of the text, tags before the character that they are before.
    parts: list[ProtectedSpan | Tag] = [*passage.tags, *passage.protected]
    for part in sorted(parts, key=lambda part: part.start if isinstance(part, ProtectedSpan) else part.at):
        number = len(codes)
        if isinstance(part, ProtectedSpan):
            codes.append(Code("mark", number, part.raw, passage.text[part.start : part.end]))
            protected.append(part._replace(raw=reference(number)))
            continue
        if part.kind == "open":
            opened.append(number)
        pair = opened.pop() if part.kind == "close" and opened else number
        codes.append(Code(part.kind, pair, part.raw, ""))
        tags.append(part._replace(raw=reference(number)))
    prepared = replace(passage, protected=tuple(protected), tags=tuple(tags), write=escape, nested=())
    yield Unit(prepared, passage, codes, location)
    for inner in passage.nested:
        yield from _units(inner.passage, location)


def translations_of(passages: Sequence[Passage], units: Sequence[Unit], targets: Sequence[str]) -> list[str]:
    """A translation for each passage, as `Document.write` takes them, from the targets of all units."""
    remaining = iter(zip(units, targets, strict=True))
    return [_translation(passage, remaining) for passage in passages]


def _translation(passage: Passage, remaining: Iterator[tuple[Unit, str]]) -> str:
    unit, target = next(remaining)
    nested = {inner.number: _translation(inner.passage, remaining) for inner in passage.nested}
    return "".join(
        passage.write(part) if isinstance(part, str) else resolve_references(unit.codes[part].raw, nested.get)
        for part in split_codes(target, unit.codes)
    )
