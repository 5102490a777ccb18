r"""Subtitles of SubStation Alpha, .ass and .ssa: translates the texts of dialogue. Times, styles, comments and drawings
are kept.

An override such as {\i1} and its end go around their words; others stand where they stood. A text has as many lines as
before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.formats.document import Content, Slot, UnreadableDocument, content_of_slots
from app.formats.encodings import decode
from app.formats.passage_builder import PassageBuilder
from app.formats.subtitles import Syntax, TextLine, line_slots

_LINE = re.compile(r"[^\r\n]+")
_SECTION = re.compile(r"\s*\[([^\]]*)\]\s*")
_FIELDS = re.compile(r"Format\s*:(.*)", re.IGNORECASE)
_DIALOGUE = re.compile(r"Dialogue\s*:", re.IGNORECASE)
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_BREAK = re.compile(r"\\[Nn]")
_MARKUP = re.compile(r"\{[^{}]*\}|\\h")
_SWITCH = re.compile(r"\{\\(?P<name>[bius])(?P<value>\d*)\}")
_SPELLINGS = str.maketrans({"\n": "\\N", "\r": "", "{": "(", "}": ")"})
_DEFAULT_FIELDS = 10
_MAX_FIELDS = 50


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
    if _DRAWING.search(text, start, end):
        return iter(())
    breaks = list(_BREAK.finditer(text, start, end))
    spans = zip([start, *(one.end() for one in breaks)], [*(one.start() for one in breaks), end], strict=True)
    lines = [TextLine(*span, text[slice(*span)]) for span in spans]
    syntax = Syntax(_MARKUP, _add_markup, encode=lambda shown: shown.translate(_SPELLINGS))
    return line_slots(text, lines, syntax, f"event {number}")


def _add_markup(builder: PassageBuilder, found: re.Match[str]) -> None:
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
