"""Repeated punctuation, as in "Stop!!": the model gets a single mark, and the translation gets all of them. And stray
blanks, which a model leaves where no writer would: two in a row, before a full stop, at the ends. They are removed.

A symbol that is forced or forbidden leaves behind the space that the model wrote for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import accumulate, pairwise

from app.markup.passage import OBJECT
from model.languages import WITHOUT_SPACES, language_alone
from model.normalisation import INVISIBLE, PADDING

_INVISIBLE = rf"[{INVISIBLE}\u200c\u200d]*"
_STOPS, _OPENING, _ENDS = ".。", "¡¿", "!?.！？。…"
_CLOSING = "\"'»”’)]」』）"
_AT_END = re.compile(rf"[{re.escape(_CLOSING)}\s{INVISIBLE}]*+\Z")
_MAY_HAVE_ROW = re.compile(rf"[!?！？¡¿.。]{_INVISIBLE}[!?！？¡¿.。]")
_ROW, _MARKS = (
    re.compile("|".join(rf"[{of}](?:{_INVISIBLE}[{of}]){{{more},}}+" for of in kinds))
    for more, kinds in ((1, ("!?！？", _OPENING, *_STOPS)), (0, ("!?！？", _OPENING)))
)
_FULL_WIDTH, _ASCII = str.maketrans("!?.", "！？。"), str.maketrans("！？。", "!?.")
_RUNS = r" (?<=\A ) *|  *\Z| (?=\s)| (?<=[\u00a0\u202f] )"
"""Each alternative, here and below, begins with its space: `re` then skips other characters."""
_OTHER_MARKS = r"[.,;:!?]"
_AFTER = r"(?=[\s\"'»”’)\]]|\Z)"
"""After a mark that ends something: .NET and :id begin with one."""
_WIDE_MARKS = r"[\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]"
_IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_SPACED_MARK = re.compile(rf"\s(?:{_OTHER_MARKS}{_AFTER}|[)\]]|{_WIDE_MARKS})|[(\[]\s")
_ALWAYS = re.compile(_RUNS)
_SPACED, _PLAIN, _UNSPACED = (
    re.compile(rf"{_RUNS}| (?={marks}{_AFTER})| (?={_WIDE_MARKS})| (?<=[(\[] )| (?=[)\]]){more}")
    for marks, more in (
        *(("[.,]", ""), (_OTHER_MARKS, "")),
        (_OTHER_MARKS, rf"| (?<={_IDEOGRAPH} )(?={_IDEOGRAPH}|\Z)"),
    )
)


Edit = tuple[int, int, str]
"""Characters [start, end) of a text, and what to write in their place."""


def may_have_repeated_marks(text: str) -> bool:
    return _MAY_HAVE_ROW.search(text) is not None


def collapse_repeated_marks(parts: Sequence[str | int]) -> list[str | int]:
    """The parts of a sentence with one mark of each row, "?" for "!?!?", at the same length, so that offsets stay
    valid. Full stops in a row are left alone unless they end the sentence: "Well... yes" is one sentence."""
    found, last = list(parts), len(parts) - 1
    for number, part in enumerate(parts):
        if isinstance(part, str):
            found[number] = _ROW.sub(partial(_collapsed, may_end=number == last), part)
    return found


def _collapsed(row: re.Match[str], may_end: bool) -> str:
    if row[0][0] in _STOPS and not (may_end and _AT_END.match(row.string, row.end())):
        return row[0]
    mark = next((mark for mark in row[0] if mark in "?？¿"), row[0][0])
    return mark + PADDING * (len(row[0]) - 1)


def restore_repeated_marks(source: Sequence[str], texts: list[str]) -> list[str]:
    """`texts`, which together translate the parts `source`, with its rows of marks. A row replaces the marks of its
    kind at the same position in the sequence, if there are as many; one that ends the source ends the translation."""
    if not any(map(may_have_repeated_marks, source)) or not any(map(str.strip, texts)):
        return texts
    text = "".join(texts)
    given = [row for part in source for row in _rows(part)]
    edits: dict[int, tuple[int, str]] = {}
    for kind in "?!¡":
        rows, places = ([row for row in of if row[0] == kind] for of in (given, _rows(text)))
        if len(rows) == len(places):
            edits |= {at: (end, row) for (_, at, end, _), (*_, row) in zip(places, rows, strict=True) if len(row) > 1}
    ending = (row for row in _ROW.finditer(source[-1]) if _AT_END.match(source[-1], row.end()))
    if row := "".join(mark for found in ending for mark in found[0] if mark in _ENDS):
        end = len(text.rstrip(f" \u00a0\u202f{_CLOSING}"))
        before = text[:end].rstrip(_ENDS)
        start = len(before.rstrip() if row[0] in _STOPS else before)
        edits = {at: edit for at, edit in edits.items() if at < start} | {start: (end, row)}
    wide = {at: (end, _match_width(row, text[max(0, end - 1) : end])) for at, (end, row) in sorted(edits.items())}
    return _apply_edits(texts, [(at, *edit) for at, edit in wide.items()])


def _rows(text: str) -> list[tuple[str, int, int, str]]:
    """The marks of a text, in a row or not: what kind they are, where, and without what is invisible between them."""
    found: list[tuple[str, int, int, str]] = []
    for row in _MARKS.finditer(text):
        marks = "".join(mark for mark in row[0] if mark in _ENDS + _OPENING)
        kind = "¡" if marks[0] in _OPENING else "?" if "?" in marks.translate(_ASCII) else "!"
        found.append((kind, *row.span(), marks))
    return found


def _match_width(row: str, text: str) -> str:
    """`row` in the width, full or half, of the end of `text` that it replaces."""
    if not text[-1:] > "\u2e80":
        return row.translate(_ASCII)
    row = row.translate(_FULL_WIDTH)
    return "……" if row.startswith("。。。") else row


def without_stray_blanks(
    texts: Sequence[str], protected: Collection[int], source: str, source_language: str, language: str
) -> list[str]:
    """`texts`, which together translate `source` into `language`, without stray blanks. A blank that the source itself
    has before marks, inside brackets or between ideographs stays.

    `protected`: the indices of texts that are followed by protected text.
    """
    stray = _SPACED if language_alone(language) == "fr" else _PLAIN
    if language_alone(language) in WITHOUT_SPACES and language_alone(source_language) not in WITHOUT_SPACES:
        stray = _UNSPACED
    if _SPACED_MARK.search(source):
        stray = _ALWAYS
    return edited(texts, protected, lambda text: [(*found.span(), "") for found in stray.finditer(text)])


def edited(texts: Sequence[str], protected: Collection[int], find: Callable[[str], Sequence[Edit]]) -> list[str]:
    """`texts` with the edits that `find` returns for all of them together, in which OBJECT stands for protected text.

    `protected`: the indices of texts that are followed by protected text.
    """
    shown = [text + OBJECT if number in protected else text for number, text in enumerate(texts)]
    if edits := find("".join(shown)):
        shown = _apply_edits(shown, edits)
    return [text[:-1] if number in protected else text for number, text in enumerate(shown)]


def _apply_edits(texts: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """`texts` with the `edits` applied: (start, end, insertion), in order, with offsets into the joined texts. An
    insertion belongs to the text that has its first character, or to the last text."""
    characters = [*"".join(texts), ""]
    for start, end, insertion in edits:
        characters[start:end] = [""] * (end - start)
        characters[start] = insertion + characters[start]
    ends = list(accumulate(map(len, texts), initial=0))
    ends[-1] += 1
    return ["".join(characters[start:end]) for start, end in pairwise(ends)]
