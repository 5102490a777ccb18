"""Finds the columns of source and target in a table of sentence pairs, by its header or its cells."""

from __future__ import annotations

import re
from itertools import islice

from model.languages import NAMES, language_alone, language_name
from training.corpora.text_file import CorpusError, TextFile

_SAMPLE_LINES = 200
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_MIN_QUOTED_CELLS = 3
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?")
_IDENTIFIER = re.compile(r"\S*\d\S*|\w+://\S+")
_MIN_CELLS_FOR_IDENTIFIERS = 10
_MIN_CELLS_PER_VALUE = 10
"""Columns with at least this many cells per distinct value contain codes, or names of corpora, not sentences."""
_SOURCE_NAMES = {"source", "src", "original"}
_TARGET_NAMES = {"target", "tgt", "trg", "translation"}
_OTHER_NAMES = {"id", "text", "sentence", "attribution", "licence", "license", "score", "comment", "lang", "url"}


def first_text_columns(columns: list[list[str]]) -> tuple[int, int]:
    """The first two columns that seem to hold sentences, or else the first two."""
    texts = [number for number, cells in enumerate(columns) if cells and _are_sentences(cells)]
    return (texts[0], texts[1]) if len(texts) > 1 else (0, 1)


def _are_sentences(cells: list[str]) -> bool:
    """Whether the cells are more than numbers, identifiers, URLs or a few repeated values."""
    if all(map(_NUMBER.fullmatch, cells)):
        return False
    if len(cells) < _MIN_CELLS_FOR_IDENTIFIERS:
        return True
    return _MIN_CELLS_PER_VALUE * len(set(cells)) > len(cells) and not all(map(_IDENTIFIER.fullmatch, cells))


def ignored_columns(taken: tuple[int, int], columns: list[list[str]]) -> str:
    """A note about the columns that are not `taken`."""
    count = len(columns)
    if taken != (0, 1):
        others = [column for column in range(taken[1]) if column not in taken]
        numbers = all(_NUMBER.fullmatch(cell) for column in others for cell in columns[column])
        what, where = "numbers" if numbers else "identifiers", " and ".join(str(column + 1) for column in others)
        return f"; the {what} in {where} are ignored" + (", and everything after both" if taken[1] + 1 < count else "")
    return {2: "", 3: "; column 3 is ignored (an attribution?)"}.get(count, f"; columns 3 to {count} are ignored")


def first_rows(file: TextFile) -> tuple[int, str, list[list[str]]]:
    """The number and text of the first non-empty line, and the first rows, split at tabs."""
    filled = ((number, line) for number, line in enumerate(file.lines(), 1) if line.strip())
    lines = list(islice(filled, _SAMPLE_LINES))
    if not lines:
        raise CorpusError(file.path, "the file contains only white space")
    return *lines[0], [line.split("\t") for _, line in lines]


def are_quoted(rows: list[list[str]]) -> bool:
    """Whether every cell that begins with a quotation mark is quoted as in RFC 4180, and for a reason: all cells are,
    or all those contain a comma, semicolon or quotation mark. Otherwise the marks belong to the sentences."""
    cells = [cell for row in rows for cell in row]
    quoted = [cell for cell in cells if cell.startswith('"')]
    if len(quoted) < _MIN_QUOTED_CELLS or not all(map(_QUOTED.fullmatch, quoted)):
        return False
    return len(quoted) == len(cells) or all(re.search('[,;"]', cell[1:-1]) for cell in quoted)


def unquoted(cell: str) -> str:
    """`cell` without the quotes of RFC 4180, if it has them."""
    return cell[1:-1].replace('""', '"') if _QUOTED.fullmatch(cell) else cell


def csv_hint(rows: list[list[str]]) -> str:
    """A hint for an error message, if lines without a tab seem to be CSV."""
    for separator in ",;":
        if all(separator in row[0] for row in rows):
            return f" (is this CSV, separated by {separator!r}? save it separated by tabs)"
    return ""


def is_header(cells: list[str], source: str, target: str) -> bool:
    """Whether two or more distinct cells are words that only name columns."""
    general = _SOURCE_NAMES | _TARGET_NAMES | _OTHER_NAMES | {name.casefold() for name in NAMES.values()}
    names = {cell.strip().casefold() for cell in cells}
    return len(names & (general | _language_names(source) | _language_names(target))) >= 2


def named_columns(cells: list[str], source: str, target: str) -> tuple[int, int] | None:
    """The columns of source and target, if the header names each of them exactly once."""
    names = [cell.strip().casefold() for cell in cells]
    found = []
    for wanted in (_language_names(source) | _SOURCE_NAMES, _language_names(target) | _TARGET_NAMES):
        columns = [column for column, name in enumerate(names) if name in wanted]
        if len(columns) != 1:
            return None
        found.append(columns[0])
    return (found[0], found[1]) if found[0] != found[1] else None


def _language_names(language: str) -> set[str]:
    """Names of a language in headers: en-GB, en, English."""
    base = language_alone(language)
    return {language.casefold(), base, *(language_name(code).casefold() for code in (language, base))}
