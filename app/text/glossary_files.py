"""Parses glossary entries, tab- or comma-separated."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from app.text.glossary import decoded, terms_of

AUTO = "auto"


def read_file(name: str, content: bytes, source: str, target: str) -> dict[str, str]:
    """The entries of a glossary's file: .csv as in `read_csv`, any other suffix tab-separated.

    Raises ValueError that names the line.
    """
    if PurePath(name).suffix.lower() == ".csv":
        return read_csv(decoded(content), source, target)
    return terms_of(content)


def read_tsv(text: str) -> dict[str, str]:
    """One entry per non-empty line: a term, a tab and its translation. Raises ValueError that names the line."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return _entries((number, line.split("\t")) for number, line in enumerate(lines, 1) if line.strip())


def read_csv(text: str, source: str, target: str) -> dict[str, str]:
    """One entry per row: a term, its translation, and optionally the codes of their languages (RFC 4180).

    `source` may be AUTO, which matches any language. Raises ValueError that names the row.
    """
    rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        found = [(number, row) for number, row in enumerate(rows, 1) if row]
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: {error}") from None
    for number, row in found:
        codes = [code.strip().lower() for code in row[2:]]
        if len(row) == 4 and codes != [codes[0] if source == AUTO else source.lower(), target.lower()]:
            raise ValueError(f"line {number}: its languages are not {source} and {target}")
    return _entries((number, row[:2] if len(row) == 4 else row) for number, row in found)


def write_tsv(entries: Mapping[str, str]) -> str:
    return "\n".join(f"{term}\t{translation}" for term, translation in entries.items())


def _entries(rows: Iterable[tuple[int, list[str]]]) -> dict[str, str]:
    entries: dict[str, str] = {}
    for number, row in rows:
        if len(row) != 2:
            raise ValueError(f"line {number}: it must be a term and its translation, but has {len(row)} parts")
        term, translation = row[0].strip(), row[1].strip()
        if term in entries:
            raise ValueError(f"line {number}: the term {term[:50]!r} is given twice")
        entries[term] = translation
    return entries
