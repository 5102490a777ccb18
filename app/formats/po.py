"""gettext catalogues: msgid to msgstr, where that is empty. polib reads them; what is to change is changed in place.

polib's own writing would wrap every line anew, and lose comments that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import polib

from app.documents.document import Content, UnreadableDocument
from app.documents.encodings import decoded, refuse_other
from app.markup import phrase
from app.passage import Passage, Piece

_CHARSET = re.compile(r'^"Content-Type:[^"\n]*charset=(?!CHARSET)([^\s\\"]+)', re.MULTILINE | re.IGNORECASE)
_ELEMENT = re.compile(r"</[A-Za-z][^<>]*>")
_LONGEST = 200_000
"""Characters of a string, as it stands in the file: polib's time grows with the square."""


class _Entry(NamedTuple):
    """Lines [start, end) of the file, and what to fill in: for a msgstr, or each plural form, in pieces, of which
    numbers are the places of passages."""

    start: int
    end: int
    strings: Sequence[Sequence[str | int]]


def read(content: bytes) -> Content:
    """Raises UnreadableDocument. What is filled in is marked fuzzy: by a machine, to be looked at."""
    text, encode = decoded(content)
    refuse_other(_CHARSET.search(text))
    lines = text.splitlines(keepends=True)
    entries: list[_Entry] = []
    passages: list[Passage] = []
    catalogue = _parsed(text)
    starts = [*(max((entry.linenum or 0) - 2, 0) for entry in catalogue), len(lines)]
    for entry, start, end in zip(catalogue, starts, starts[1:], strict=False):
        if _is_empty(entry):
            if not any(map(_begins_translation, lines[start:end])):
                raise UnreadableDocument(
                    f"The file is no gettext catalogue: the entry at line {start + 1} has no msgstr."
                )
            texts = [entry.msgid, entry.msgid_plural] if entry.msgid_plural else [entry.msgid]
            strings = [_collected(text, passages) for text in texts]
            # Where there is one form only, as in Chinese, it is the plural.
            forms = [bool(form) or len(entry.msgstr_plural) == 1 for form in sorted(entry.msgstr_plural)]
            entries.append(_Entry(start, end, [strings[-is_plural] for is_plural in forms] or strings[:1]))

    def write(translations: Sequence[str]) -> bytes:
        assert len(translations) == len(passages)
        parts, done = [], 0
        for entry in entries:
            parts += lines[done : entry.start]
            filled = ("".join(p if isinstance(p, str) else translations[p] for p in pieces) for pieces in entry.strings)
            parts += _filled(lines[entry.start : entry.end], list(filled))
            done = entry.end
        return encode("".join([*parts, *lines[done:]]))

    return Content(passages, write)


def _collected(text: str, passages: list[Passage]) -> list[str | int]:
    """The pieces of a string, with its passages added to the others. Where it has tags, it is HTML."""
    found: list[Piece] = phrase(text) if _ELEMENT.search(text) else [Passage(text)]
    pieces: list[str | int] = []
    for piece in found:
        if isinstance(piece, str):
            pieces.append(piece)
        else:
            pieces.append(len(passages))
            passages.append(piece)
    return pieces


def _parsed(text: str) -> polib.POFile:
    length = 0
    for line in text.splitlines():
        length = length + len(line) if line.lstrip().startswith('"') else len(line)
        if length > _LONGEST:
            raise UnreadableDocument(f"The file has a string of more than {_LONGEST} characters.")
    try:
        # With a line end before it, no content can be the name of a file, which polib would open.
        return polib.pofile("\n" + text)
    except (OSError, ValueError, IndexError) as error:
        raise UnreadableDocument(f"The file is no gettext catalogue: {str(error).splitlines()[0]}.") from None


def _is_empty(entry: polib.POEntry) -> bool:
    """Whether it is to be translated."""
    if entry.obsolete or entry.msgstr or any(entry.msgstr_plural.values()):
        return False
    return any(map(str.isalpha, entry.msgid + entry.msgid_plural))


def _begins_translation(line: str) -> bool:
    return line.lstrip().startswith("msgstr")


def _filled(lines: Sequence[str], translations: Sequence[str]) -> list[str]:
    """An entry's lines with its translations."""
    begins = [line.lstrip() for line in lines]
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    first = next(i for i, line in enumerate(lines) if _begins_translation(line))
    after = first + 1
    while after < len(lines) and begins[after].startswith(("msgstr[", '"')):
        after += 1
    keywords = ["msgstr"] if begins[first][6:7] != "[" else [f"msgstr[{form}]" for form in range(len(translations))]
    filled = [f"{line}{end}" for pair in zip(keywords, translations, strict=True) for line in _strings(*pair)]
    return [*_fuzzy(lines[:first], begins, end), *filled, *lines[after:]]


def _strings(keyword: str, text: str) -> list[str]:
    """`keyword` with `text`, a line of the file for each of its lines."""
    parts = [f'"{polib.escape(part)}"' for part in re.findall(r"[^\n]*\n|[^\n]+", text)]
    return [f"{keyword} {parts[0]}"] if len(parts) == 1 else [f'{keyword} ""', *parts]


def _fuzzy(lines: Sequence[str], begins: Sequence[str], end: str) -> list[str]:
    for i, line in enumerate(lines):
        if begins[i].startswith("#,"):
            if re.search(r"\bfuzzy\b", line):
                return list(lines)
            return [*lines[:i], line.replace("#,", "#, fuzzy,", 1), *lines[i + 1 :]]
    place = next(i for i, line in enumerate(begins) if line.startswith(("#|", "msgctxt", "msgid")))
    return [*lines[:place], f"#, fuzzy{end}", *lines[place:]]
