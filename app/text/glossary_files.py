"""Reads and writes files of glossaries, tab- or comma-separated."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from app.settings import PREFIX, SettingsError
from app.text.glossary import Glossaries, Glossary, entry_error
from model.languages import AUTO

_CODE = r"[a-z]{2,8}(?:-[A-Z0-9][A-Za-z0-9]*)*"
_FILE_NAME = re.compile(rf"(?P<name>.+)\.(?P<source>{_CODE})-(?P<target>{_CODE})\.tsv")


def load_glossaries(folder: Path | None) -> Glossaries:
    """Loads the glossaries in the files NAME.SOURCE-TARGET.tsv in `folder`; none if it is None.

    Raises SettingsError, which names file and line.
    """
    if folder is None:
        return Glossaries()
    if not folder.is_dir():
        raise SettingsError(f"{PREFIX}GLOSSARIES={folder}: there is no such folder")
    loaded: dict[tuple[str, str, str], Glossary] = {}
    for path in sorted(folder.glob("*.tsv")):
        named = _FILE_NAME.fullmatch(path.name)
        if not named:
            raise SettingsError(f"{PREFIX}GLOSSARIES: {path.name} needs a name like terms.en-fr.tsv")
        try:
            terms = _read_terms(path.read_bytes())
            loaded[named["name"], named["source"], named["target"]] = Glossary(terms, named["source"])
        except ValueError as error:
            raise SettingsError(f"{PREFIX}GLOSSARIES: {path.name}: {error}") from None
    return Glossaries(loaded)


def read_file(name: str, content: bytes, source: str, target: str) -> dict[str, str]:
    """The entries of a glossary's file: .csv as in `read_csv`, any other suffix tab-separated.

    Raises ValueError that names the line.
    """
    if PurePath(name).suffix.lower() == ".csv":
        return read_csv(_decode(content), source, target)
    return _read_terms(content)


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


def _read_terms(content: bytes) -> dict[str, str]:
    """The terms of a file and their translations: on each line a term, a tab and its translation.

    Ignores empty lines and comments, which begin with "#". Raises ValueError that names the line.
    """
    terms: dict[str, str] = {}
    for number, line in enumerate(_decode(content).replace("\r\n", "\n").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        term, *translations = line.split("\t")
        error = (
            entry_error(term, translations[0])
            if len(translations) == 1
            else "A line must be a term, a tab and its translation."
        )
        if error or term.strip() in terms:
            raise ValueError(f"line {number}: {error or f'The term {term.strip()!r} is given twice.'}")
        terms[term.strip()] = translations[0].strip()
    return terms


def _decode(content: bytes) -> str:
    """The text of a file. Raises ValueError that names the line."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        lines_before = content.count(b"\n", 0, error.start)
        raise ValueError(f"line {lines_before + 1}: not UTF-8") from None
