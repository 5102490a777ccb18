"""Hard-wrapped plain text: decides which lines form a paragraph, joins them, and wraps the translation again.

Judges by layout, independently of language. Lists, verse, addresses, tables, code, headings and quotations keep their
lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from statistics import median_low
from typing import Literal, NamedTuple
from unicodedata import east_asian_width

LineBreaks = Literal["keep", "join", "auto"]
"""Keep lines; join the lines of each paragraph; or join if the text looks wrapped."""
_MIN_WRAP_COLUMNS, _MAX_WRAP_COLUMNS = 40, 140
"""Columns at which text is typically wrapped."""
_MIN_PROSE_COLUMNS = 60
"""Columns that verse hardly ever reaches."""
_MIN_FULL_COLUMNS = 55
"""The minimum columns of the first of only two lines for it to count as full, without other evidence."""
_SLACK = 0.06
"""Share of the width by which a full line may fall short of the next word."""
_SHORT_LINE = 0.25
"""Share of the width: a line with this much space left ends a paragraph."""
_LIST_ITEM = re.compile(r"(?:[-*+•‣◦▪·–—]|\(?(?:\d{1,3}|[a-z]|[ivxlc]{1,5})[.)]|\(?[A-Z]\)|\[\d{1,3}\])\s")
_NOT_PROSE = re.compile(
    r"[>|#]|(?:```|~~~)|[^\w\s]{3,}\s*\Z"  # quotations, tables, headings, rules
    r"|.*(?:\||\t|\S {3,}\S|[{};]\s*\Z|[\u2500-\u257f])"  # tables, code
)
_FENCE = re.compile(r"```|~~~")
_ENDS_SENTENCE = re.compile(r"[.!?:。！？：][)\]\"'’”»」』]*\Z")
_ENDS_VERSE = re.compile(r"[.,;:!?…—][)\]\"'’”»]*\Z")
_HYPHENATED = re.compile(r"[^\W\d_][-\u2010]\Z")
_WIDE = r"[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]"
_WIDE_CHARACTER = re.compile(_WIDE)
_CLOSES = r"[、。，．：；？！」』）】》〉”’…—]"
_OPENS = r"[（「『【《〈“‘]"
_BREAKS = re.compile(rf"(?P<space> +)|(?<={_WIDE})(?!{_CLOSES})(?=\S)|(?<=\S)(?<!{_OPENS})(?={_WIDE})(?!{_CLOSES})")


@dataclass(frozen=True)
class Wrapping:
    """How a paragraph was wrapped: the prefixes of its first and other lines, columns, and line ends."""

    first: str
    others: str
    width: int
    line_end: str

    def wrap(self, text: str) -> str:
        """Wraps `text`, whose first line has its prefix, to the same width, unless a word is wider."""
        indent, lines = self.first, list[str]()
        line, used = "", _columns(indent)
        for gap, word in _unbreakable_units(text.removeprefix(self.first)):
            if line and used + len(gap) + _columns(word) > self.width:
                lines.append(indent + line)
                indent, line, gap = self.others, "", ""
                used = _columns(indent)
            line += gap + word
            used += len(gap) + _columns(word)
        return self.line_end.join([*lines, indent + line])


class LogicalLine(NamedTuple):
    """Characters [start, end) of a text: a line, or lines joined into the line `text`, with its line end."""

    start: int
    end: int
    text: str
    wrapping: Wrapping | None = None


@dataclass(frozen=True)
class ReflowedText:
    """A text, and the lines in which it is translated."""

    original: str
    lines: Sequence[LogicalLine]

    @classmethod
    def of(cls, text: str, line_breaks: LineBreaks) -> ReflowedText:
        return cls(text, logical_lines(text, line_breaks))

    @property
    def text(self) -> str:
        """The text to translate."""
        return "".join(line.text for line in self.lines)

    def rewrap(self, translation: str) -> str:
        """The translation of `text`, with joined lines wrapped again."""
        return rewrap(self.original, self.lines, translation)


class _Line(NamedTuple):
    start: int
    raw: str
    body: str
    """Without white space at its ends."""
    columns: int

    @property
    def indent(self) -> str:
        return self.raw[: len(self.raw) - len(self.raw.lstrip())]

    @property
    def line_end(self) -> str:
        return self.raw[len(self.raw.rstrip("\r\n")) :]


def logical_lines(text: str, line_breaks: LineBreaks) -> list[LogicalLine]:
    """All of `text`, in order."""
    raws = text.splitlines(keepends=True)
    starts = accumulate(map(len, raws), initial=0)
    lines = [_Line(start, raw, raw.strip(), _columns(raw.rstrip())) for start, raw in zip(starts, raws, strict=False)]
    if line_breaks == "keep":
        return [_unjoined(line) for line in lines]
    blocks = list(_blocks(lines))
    widths = sorted(max(line.columns for line in block) for block in blocks if _is_wrapped(block))
    width = median_low(widths) if widths else None
    paragraphs = blocks if line_breaks == "join" else chain.from_iterable(_paragraphs(block, width) for block in blocks)
    return [_join(one, width) if len(one) > 1 else _unjoined(one[0]) for one in paragraphs]


def rewrap(text: str, group: Sequence[LogicalLine], translation: str) -> str:
    """The translation of `group`, with joined lines wrapped again."""
    lines = translation.splitlines(keepends=True)
    if len(lines) != len(group) or not any(line.wrapping for line in group):
        return translation
    parts = []
    for original, line in zip(group, lines, strict=True):
        if line == original.text:
            parts.append(text[original.start : original.end])
        elif original.wrapping:
            body = line.rstrip("\r\n")
            parts += [original.wrapping.wrap(body), line[len(body) :]]
        else:
            parts.append(line)
    return "".join(parts)


def _blocks(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """Lines that may form one paragraph: with equal indentation, except for the first, and at most one list item."""
    block: list[_Line] = []
    fenced = False
    for line in lines:
        is_fence = _FENCE.match(line.body) is not None
        is_apart = fenced or is_fence or not line.body or _NOT_PROSE.match(line.body) is not None
        fenced = fenced != is_fence
        goes_on = len(block) < 2 or line.indent == block[-1].indent
        if block and (is_apart or _LIST_ITEM.match(line.body) or not goes_on):
            yield block
            block = []
        if is_apart:
            yield [line]
        else:
            block.append(line)
    if block:
        yield block


def _paragraphs(block: Sequence[_Line], width: int | None) -> Iterator[Sequence[_Line]]:
    """The paragraphs of a block, if none of its line ends is deliberate; else its lines."""
    if _is_wrapped(block):
        yield from _split_after_short_lines(block, max(line.columns for line in block), _SHORT_LINE)
    elif width is not None:
        # With little evidence, a sentence that ends with its line is left alone: it is not broken anyway.
        for part in _split_after_short_lines(block, width, _SLACK):
            yield from _split_after_sentences(part)
    elif len(block) == 2 and _is_broken_sentence(*block):
        yield block
    else:
        yield from ([line] for line in block)


def _is_wrapped(block: Sequence[_Line]) -> bool:
    """Whether almost all of three or more lines are as long as possible."""
    if len(block) < 3:
        return False
    width = max(line.columns for line in block)
    *lines, _ = block
    full = sum(one.columns + _columns_needed(one, other) > width for one, other in pairwise(block))
    sentences = sum(_ENDS_SENTENCE.search(line.body) is not None for line in lines)
    verse = sum(_ENDS_VERSE.search(line.body) is not None for line in lines)
    capitals = sum(line.body[0].isupper() for line in block[1:])
    if capitals >= 0.8 * len(lines) and (width < _MIN_PROSE_COLUMNS or 2 * verse >= len(lines)):
        return False
    return _MIN_WRAP_COLUMNS <= width <= _MAX_WRAP_COLUMNS and full >= 0.8 * len(lines) and 2 * sentences <= len(lines)


def _is_broken_sentence(first: _Line, second: _Line) -> bool:
    fits = second.columns < first.columns + _columns_needed(first, second)
    return _MIN_FULL_COLUMNS <= first.columns <= _MAX_WRAP_COLUMNS and fits and _continues(first, second)


def _continues(line: _Line, following: _Line) -> bool:
    """Whether a sentence seems to continue."""
    return not _ENDS_SENTENCE.search(line.body) and not following.body[0].isupper()


def _split_after_short_lines(block: Sequence[_Line], width: int, slack: float) -> Iterator[Sequence[_Line]]:
    """Splits the block after each line that would have had room for the next word and `slack`, a share of the width."""
    start = 0
    for number, (one, other) in enumerate(pairwise(block), 1):
        free = width - one.columns - _columns_needed(one, other)
        if free >= width * (_SHORT_LINE if _continues(one, other) else slack) or one.columns > width * (1 + _SLACK):
            yield block[start:number]
            start = number
    yield block[start:]


def _split_after_sentences(block: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    """Splits the block after each line that ends a sentence."""
    start = 0
    for number, line in enumerate(block[:-1], 1):
        if _ENDS_SENTENCE.search(line.body):
            yield block[start:number]
            start = number
    yield block[start:]


def _columns_needed(line: _Line, following: _Line) -> int:
    """Columns that the first word of the next line would have needed on this one."""
    _, word = next(_unbreakable_units(following.body))
    return len(_separator(line, following)) + _columns(word)


def _separator(line: _Line, following: _Line) -> str:
    """The separator to join two lines with. A hyphen at a line end stays: it may belong to the word."""
    if _WIDE_CHARACTER.match(line.body[-1]) and _WIDE_CHARACTER.match(following.body[0]):
        return ""
    return "" if _HYPHENATED.search(line.body) and following.body[0].islower() else " "


def _join(paragraph: Sequence[_Line], width: int | None) -> LogicalLine:
    first, second, last = paragraph[0], paragraph[1], paragraph[-1]
    text = "".join([first.body, *(_separator(*pair) + pair[1].body for pair in pairwise(paragraph))])
    own = max(line.columns for line in paragraph)
    wrapping = Wrapping(
        first.indent, second.indent, max(own, width or 0) if len(paragraph) == 2 else own, first.line_end
    )
    return LogicalLine(first.start, last.start + len(last.raw), first.indent + text + last.line_end, wrapping)


def _unjoined(line: _Line) -> LogicalLine:
    return LogicalLine(line.start, line.start + len(line.raw), line.raw)


def _unbreakable_units(text: str) -> Iterator[tuple[str, str]]:
    """Unbreakable units, each with the spaces before it."""
    gap, done = "", 0
    for found in _BREAKS.finditer(text):
        if found.start() > done:
            yield gap, text[done : found.start()]
            gap = ""
        gap, done = found["space"] or gap, found.end()
    if done < len(text):
        yield gap, text[done:]


def _columns(text: str) -> int:
    return len(text) if text.isascii() else sum(1 + (east_asian_width(character) in "WF") for character in text)
