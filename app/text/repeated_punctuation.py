"""Repeated punctuation, as in "Stop!!": the model gets a single mark, and the translation gets all of them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise

from model.normalisation import INVISIBLE, PADDING

_INVISIBLE = rf"[{INVISIBLE}\u200c\u200d]*"


def _row(marks: str, min_count: int) -> str:
    """At least this many of `marks` in a row, ignoring invisible characters between them."""
    return rf"[{marks}](?:{_INVISIBLE}[{marks}]){{{min_count - 1},}}+"


_KINDS = "!?！？", "¡¿", ".", "。"
_AT_END = re.compile(rf"[\"'»”’)\]」』）\s{INVISIBLE}]*+\Z")
_SECOND = "|".join(rf"(?<=[{marks}]){_INVISIBLE}[{marks}]" for marks in _KINDS)
_ANY_ROW = re.compile(rf"[{''.join(_KINDS)}](?:{_SECOND})")
"""Two in a row. If a pattern begins with a single class, `re` skips other characters without attempting a match."""
_ROW = re.compile("|".join(_row(marks, 2) for marks in _KINDS))
_MARKS = re.compile(_row("!?！？", 1))
_OPENING = re.compile(_row("¡¿", 1))
_COLLAPSED = re.compile(rf"{_row('!?！？', 2)}|{_row('¡¿', 2)}")
_STOPS = re.compile(rf"{_row('.', 2)}|{_row('。', 2)}")
_FULL_WIDTH = str.maketrans("!?.", "！？。")
_ASCII = str.maketrans("！？。", "!?.")
_ENDS = "!?.！？。…"
_CLOSING = " \u00a0\u202f\"'»”’)]」』）"
_MIN_ELLIPSIS_STOPS = 3
"""This many stops in a row, or more, are an ellipsis."""


def has_repeated_marks(text: str) -> bool:
    return _ANY_ROW.search(text) is not None


def collapse_repeated_marks(parts: Sequence[str | int]) -> list[str | int]:
    """The parts of a sentence with one mark of each row, "?" for "!?!?", at the same length, so that offsets stay
    valid.

    Full stops in a row are left alone unless they end the sentence: "Well... yes" is one sentence.
    """
    found = list(parts)
    for number, part in enumerate(parts):
        if isinstance(part, str) and has_repeated_marks(part):
            part = _COLLAPSED.sub(_collapse, part)
            if number == len(parts) - 1 and (stops := _last_at_end(_STOPS, part)):
                part = part[: stops.start()] + _collapse(stops) + part[stops.end() :]
            found[number] = part
    return found


def _last_at_end(row: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of `row`, if only closing marks follow. As part of a pattern, that would be tried at every mark
    of every row."""
    last = deque(row.finditer(text), maxlen=1)
    return last[0] if last and _AT_END.match(text, last[0].end()) else None


def _collapse(found: re.Match[str]) -> str:
    mark = next((mark for mark in found[0] if mark in "?？¿"), found[0][0])
    return mark + PADDING * (len(found[0]) - 1)


def restore_repeated_marks(source: Sequence[str], texts: list[str]) -> list[str]:
    """`texts`, which together translate the parts `source`, with the source's rows of marks restored.

    A row replaces the mark of its kind, question, exclamation or opening, at the same position in the sequence, if the
    translation has as many of them; a row that ends the source ends the translation.
    """
    if not any(map(has_repeated_marks, source)) or not any(map(str.strip, texts)):
        return texts
    text = "".join(texts)
    rows = [_marks_of(found[0]) for part in source for found in _MARKS.finditer(part)]
    edits: dict[int, tuple[int, str]] = {}
    for kind in "?!":
        same = [row for row in rows if _kind(row) == kind]
        places = [at for at, mark in enumerate(text) if _kind(mark) == kind]
        if len(same) == len(places):
            edits |= {at: (at + 1, row) for at, row in zip(places, same, strict=True) if len(row) > 1}
    opening = ["".join(filter("¡¿".__contains__, found[0])) for part in source for found in _OPENING.finditer(part)]
    spans = [found.span() for found in _OPENING.finditer(text)]
    if len(opening) == len(spans):
        edits |= {start: (end, row) for (start, end), row in zip(spans, opening, strict=True) if len(row) > 1}
    if (found := _last_at_end(_ROW, source[-1])) and (row := _marks_of(found[0])):
        end = len(text.rstrip(_CLOSING))
        before = text[:end].rstrip(_ENDS)
        start = len(before if _kind(row) else before.rstrip())
        edits = {at: edit for at, edit in edits.items() if at < start} | {start: (end, row)}
    widened = [
        (start, end, _match_width(row, text[max(0, end - 1) : end])) for start, (end, row) in sorted(edits.items())
    ]
    return apply_edits(texts, widened)


def _marks_of(found: str) -> str:
    return "".join(mark for mark in found if mark in _ENDS)


def _kind(row: str) -> str:
    """Returns "?" if any mark in the row asks, "!" if they exclaim, else none."""
    plain = row.translate(_ASCII)
    return "?" if "?" in plain else "!" if "!" in plain else ""


def _match_width(row: str, text: str) -> str:
    """`row` in the width, full or half, of the end of `text` that it replaces."""
    if not text[-1:] > "\u2e80":
        return row.translate(_ASCII)
    row = row.translate(_FULL_WIDTH)
    return "……" if row[0] == "。" and len(row) >= _MIN_ELLIPSIS_STOPS else row


def apply_edits(texts: Sequence[str], edits: Sequence[tuple[int, int, str]]) -> list[str]:
    """`texts` with the `edits` applied: (start, end, insertion), in order, with offsets into the joined texts.

    An insertion belongs to the text that has its first character, or to the last text.
    """
    characters = [*"".join(texts), ""]
    for start, end, insertion in edits:
        characters[start:end] = [""] * (end - start)
        characters[start] = insertion + characters[start]
    ends = list(accumulate(map(len, texts), initial=0))
    ends[-1] += 1
    return ["".join(characters[start:end]) for start, end in pairwise(ends)]
