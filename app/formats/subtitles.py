"""Subtitles, SubRip and WebVTT: translates the lines of cues. Numbers, times, settings, notes and styles are kept to
the byte.

The libraries for these formats rewrite the whole file, including times, so this module finds the lines itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from app.formats.document import Content, Slot, UnreadableDocument, content_of_slots
from app.formats.encodings import decode
from app.formats.passage_builder import PassageBuilder
from app.markup.passage import Passage

_LINE = re.compile(r"[^\r\n]*(\r\n?|\n|\Z)")
_TIMES = re.compile(
    r"[ \t]*(?:\d{1,4}:)?\d{1,2}:\d{1,2}[,.:]\d{1,3}[ \t]*-->[ \t]*(?:\d{1,4}:)?\d{1,2}:\d{1,2}[,.:]\d{1,3}"
)
_MARKUP = re.compile(r"(<(/?)([A-Za-z]\w*+)[^<>\n]{0,200}>|</?\d[\d:.]*>|\{\\[^{}\n]{0,200}\})")
_ENDS = re.compile(r"[.!?…:;。！？♪\"”»)\]](?:<[^<>]*>|\s)*$")
_SPEAKER = re.compile(r"(?:<[^<>]*>|\{[^{}]*\}|\s)*(?:[-–—―♪#(\[]|>>)")
_MAX_LINES = 6
"""Maximum number of lines per passage."""
_BREAK_POINT = re.compile(r" +(?=\S)")
_BREAK_WITHOUT_SPACE = re.compile(r"[\u2e80-\uffef](?=[\u2e80-\u2fff\u3021-\ufaff])")
"""Break points without spaces, as in Chinese; not before punctuation."""
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"})
"""For WebVTT, which uses HTML's character references; two line ends would end the cue."""


class TextLine(NamedTuple):
    start: int
    end: int
    """Without the line end."""
    text: str


class Syntax(NamedTuple):
    """How lines of subtitles are written: what is markup, and how it and other text becomes a passage and back."""

    markup: re.Pattern[str]
    add_markup: Callable[[PassageBuilder, re.Match[str]], object]
    decode: Callable[[str], str] = str
    encode: Callable[[str], str] = str


def read(content: bytes, suffix: str) -> Content:
    """`suffix`: .srt or .vtt. Raises UnreadableDocument."""
    is_vtt = suffix == ".vtt"
    syntax = Syntax(_MARKUP, _add_markup)
    if is_vtt:
        syntax = syntax._replace(decode=unescape, encode=lambda shown: shown.translate(_ESCAPES))
    text, encode = decode(content)
    if is_vtt and not re.match(r"WEBVTT(?=[ \t\r\n]|\Z)", text):
        raise UnreadableDocument("The file is not WebVTT: it does not begin with WEBVTT.")
    lines = [
        TextLine(found.start(), found.start(1), text[found.start() : found.start(1)]) for found in _LINE.finditer(text)
    ]
    slots, cues = list[Slot](), 0
    for cues, cue in enumerate(_cues(lines, is_vtt), 1):
        slots += line_slots(text, cue, syntax, f"cue {cues}")
    if not cues and text.strip() and not is_vtt:
        raise UnreadableDocument("The file has no subtitles: no line such as 00:00:01,000 --> 00:00:02,000.")
    return content_of_slots(text, slots, encode)


def _cues(lines: Sequence[TextLine], is_vtt: bool) -> Iterator[list[TextLine]]:
    """The displayed lines of each cue; in SubRip, there may be empty lines between them."""
    timed = [number for number, line in enumerate(lines) if _TIMES.match(line.text)]
    for times_line, following in pairwise([*timed, len(lines)]):
        end = following
        if following < len(lines) and end - 1 > times_line and lines[end - 1].text.strip():
            end -= lines[end - 1].text.strip().isdecimal() or (end - 2 > times_line and not lines[end - 2].text.strip())
        visible = list(lines[times_line + 1 : end])
        if is_vtt:
            empty = next((i for i, line in enumerate(visible) if not line.text), len(visible))
            visible = visible[:empty]
        yield visible


def line_slots(text: str, lines: Sequence[TextLine], syntax: Syntax, name: str) -> Iterator[Slot]:
    """The passages of a subtitle, of which these are the lines of `text`. `name`: where they are."""
    for group in _groups(lines):
        if passage := _passage([line.text for line in group], syntax):
            breaks = [text[one.end : other.start] for one, other in pairwise(group)]
            yield Slot(group[0].start, group[-1].end, passage, partial(_break_lines, breaks), name)


def _groups(lines: Sequence[TextLine]) -> Iterator[list[TextLine]]:
    """The lines that belong together: up to a sentence end, an empty line, or a change of speaker."""
    group: list[TextLine] = []
    for line in lines:
        if len(group) == _MAX_LINES or (group and _is_separate(group[-1].text, line.text)):
            yield group
            group = []
        if line.text.strip():
            group.append(line)
    if group:
        yield group


def _is_separate(line: str, following: str) -> bool:
    """Whether a line of a subtitle is no continuation of the one before it."""
    return not following.strip() or bool(_ENDS.search(line[-200:]) or _SPEAKER.match(following))


def _passage(lines: Sequence[str], syntax: Syntax) -> Passage | None:
    builder = PassageBuilder()
    for number, line in enumerate(lines):
        if number:
            builder.add_text(" ")
        shown, done = line.strip() if number else line.rstrip(), 0
        for found in syntax.markup.finditer(shown):
            builder.add_text(syntax.decode(shown[done : found.start()]))
            syntax.add_markup(builder, found)
            done = found.end()
        builder.add_text(syntax.decode(shown[done:]))
    return builder.build_translatable(syntax.encode)


def _add_markup(builder: PassageBuilder, found: re.Match[str]) -> None:
    if not found[3]:
        builder.add_mark(found[0])
    elif found[2]:
        builder.close_tag(found[0], found[3])
    else:
        builder.open_tag(found[0], found[3])


def _break_lines(breaks: Sequence[str], text: str) -> str:
    """`text` in lines of similar length, one more than there are `breaks`, which are inserted between them."""
    if not breaks:
        return text
    visible = _MARKUP.sub(lambda found: "\0" * len(found[0]), text)
    before = [0]
    for character in visible:
        before.append(before[-1] + (character != "\0"))
    points = [(found.start(), found.end()) for found in _BREAK_POINT.finditer(visible)]
    if len(points) < len(breaks):
        points = [(found.end(), found.end()) for found in _BREAK_WITHOUT_SPACE.finditer(visible)]
    parts, done = [], 0
    for number, line_end in enumerate(breaks, start=1):
        target = before[-1] * number / (len(breaks) + 1)
        candidates = [point for point in points if point[0] > done]
        if not candidates:
            break
        start, end = min(candidates, key=lambda point: abs(before[point[0]] - target))
        parts += [text[done:start], line_end]
        done = end
    return "".join([*parts, text[done:]])
