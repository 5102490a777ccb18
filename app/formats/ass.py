r"""Subtitles of SubStation Alpha, .ass and .ssa: translates the texts of dialogue. Times, styles, comments and drawings
are kept.

An override such as {\i1} and its end go around their words; others stand where they stood. A text has as many lines as
before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from app.formats.document import Content, Slot, UnreadableDocument, content_of_slots
from app.formats.encodings import decode
from app.formats.passage_builder import PassageBuilder
from app.formats.subtitles import break_lines, is_separate
from app.markup.passage import Passage

_LINE = re.compile(r"[^\r\n]+")
_SECTION = re.compile(r"\s*\[([^\]]*)\]\s*")
_FIELDS = re.compile(r"Format\s*:(.*)", re.IGNORECASE)
_DIALOGUE = re.compile(r"Dialogue\s*:", re.IGNORECASE)
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_BREAK = re.compile(r"\\[Nn]")
_MARKUP = re.compile(r"\{[^{}]*\}|\\h")
_SWITCH = re.compile(r"\{\\(?P<name>[bius])(?P<value>\d*)\}")
_SPELLINGS = {"\n": "\\N", "\r": "", "{": "(", "}": ")"}
_DEFAULT_FIELDS = 10
_MAX_FIELDS = 50
_MAX_LINES = 6
"""Maximum number of lines per passage."""


def read(content: bytes) -> Content:
    """Raises UnreadableDocument."""
    text, encode = decode(content)
    slots = [slot for number, (start, end) in enumerate(_events(text), 1) for slot in _slots(text, start, end, number)]
    return content_of_slots(text, slots, encode)


def _events(text: str) -> Iterator[tuple[int, int]]:
    """Where the texts of dialogue are. Raises UnreadableDocument if the file has no events."""
    section, fields, has_events = "", _DEFAULT_FIELDS, False
    for line in _LINE.finditer(text):
        if heading := _SECTION.fullmatch(line[0]):
            section = heading[1].strip().lower()
            has_events = has_events or section == "events"
        elif section != "events":
            continue
        elif format_line := _FIELDS.match(line[0]):
            names = [name.strip().lower() for name in format_line[1].split(",", _MAX_FIELDS)]
            if names[-1] != "text" or len(names) > _MAX_FIELDS:
                raise UnreadableDocument("The file is not .ass: the format of its events does not end with Text.")
            fields = len(names)
        elif begin := _DIALOGUE.match(line[0]):
            parts = line[0][begin.end() :].split(",", fields - 1)
            if len(parts) == fields:
                yield line.end() - len(parts[-1]), line.end()
    if not has_events and text.strip():
        raise UnreadableDocument("The file is not .ass: it has no section [Events].")


def _slots(text: str, start: int, end: int, number: int) -> Iterator[Slot]:
    """The passages of a text: lines that belong together."""
    if _DRAWING.search(text, start, end):
        return
    breaks = list(_BREAK.finditer(text, start, end))
    lines = list(zip([start, *(one.end() for one in breaks)], [*(one.start() for one in breaks), end], strict=True))
    group: list[tuple[int, int]] = []
    for line in [*lines, None]:
        is_end = line is None or len(group) == _MAX_LINES
        if group and (is_end or (line and is_separate(text[slice(*group[-1])], text[slice(*line)]))):
            passage = _passage([text[slice(*one)] for one in group])
            if passage:
                between = [text[one[1] : other[0]] for one, other in pairwise(group)]
                yield Slot(group[0][0], group[-1][1], passage, partial(break_lines, between), f"event {number}")
            group = []
        if line and text[slice(*line)].strip():
            group.append(line)


def _passage(lines: list[str]) -> Passage | None:
    builder = PassageBuilder()
    for number, line in enumerate(lines):
        if number:
            builder.add_text(" ")
        shown, done = line.strip() if number else line.rstrip(), 0
        for found in _MARKUP.finditer(shown):
            builder.add_text(shown[done : found.start()])
            done = found.end()
            switch = _SWITCH.fullmatch(found[0])
            if found[0] == "\\h":
                builder.add_mark(found[0], space=True)
                builder.add_text(" ")
            elif switch is None:
                builder.add_mark(found[0])
            elif switch["value"] in ("", "0"):
                builder.close_tag(found[0], switch["name"])
            else:
                builder.open_tag(found[0], switch["name"])
        builder.add_text(shown[done:])
    return builder.build_translatable(lambda text: "".join(_SPELLINGS.get(one, one) for one in text))
