"""Tables, .csv and .tsv: translates columns, in place or into another column. Quotation marks and line ends are kept.

The first row names the columns. A delimiter is the one that most of it has: a comma, a semicolon or a tab.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument, WrongOption, line_numbers
from app.formats.encodings import decode
from model.languages import AUTO

_MAX_COLUMNS = 10_000
_MAX_COPIES = 10
"""Columns that one column may be translated into."""
_EMPTY_LINES = re.compile(r"[\r\n]+")
_NEEDS_QUOTES = re.compile(r'["\r\n]|\A\s|\s\Z')


@dataclass(frozen=True)
class _Field:
    """Characters [start, end) of a field, with its quotation marks."""

    start: int
    end: int
    text: str
    is_quoted: bool


class _Column(NamedTuple):
    """A column to translate, by index, and the one to fill in, if that is another."""

    source: int
    target: int


def read(content: bytes, suffix: str, target: str = "", source: str = "", columns: str = "") -> Content:
    """`suffix`: .csv or .tsv. `columns`: names or numbers of columns: "text, title", or "en=fr" to fill in fr where it
    is empty; without it, a column named like `source` is translated into one named like `target`. Raises
    UnreadableDocument."""
    text, encode = decode(content)
    delimiter = "\t" if suffix == ".tsv" else _delimiter(text)
    rows = _rows(text, delimiter)
    header = [field.text.strip() for field in next(rows, [])]
    if not header and not text.strip():
        return catalogue_content(text, (), target, encode)
    chosen = _chosen(header, columns) if columns.strip() else _by_language(header, source, target)
    values = (value for row in rows for value in _values(row, header, chosen, delimiter))
    return catalogue_content(text, values, target, encode)


def _delimiter(text: str) -> str:
    """The delimiter that the first row has most of."""
    row = re.match(r'(?:[^"\r\n]|"(?:[^"]|"")*+")*+', text)
    unquoted = re.sub(r'"(?:[^"]|"")*+"', "", row[0] if row else "")
    return max(",;\t", key=unquoted.count)


def _rows(text: str, delimiter: str) -> Iterator[list[_Field]]:
    """The fields of each row, without empty lines. Raises UnreadableDocument if a quotation mark is not closed."""
    pattern = re.compile(rf'(?:"((?:[^"]|"")*+)")?+([^{delimiter}\r\n]*+)({delimiter}|\r\n?|\n|\Z)')
    place, row = 0, list[_Field]()
    while place < len(text) or row:
        if not row and (empty := _EMPTY_LINES.match(text, place)):
            place = empty.end()
            continue
        found = pattern.match(text, place)
        is_open = found is not None and found[1] is None and found[2].startswith('"')
        if found is None or is_open or (found[1] is not None and found[2].strip()):
            line = line_numbers(text)(place)
            raise UnreadableDocument(f"The file is not a table: line {line} has a quotation mark that is not closed.")
        is_quoted = found[1] is not None
        value = found[1].replace('""', '"') if is_quoted else found[2]
        row.append(_Field(found.start(), found.end(1) + 1 if is_quoted else found.end(2), value, is_quoted))
        place = found.end()
        if len(row) > _MAX_COLUMNS:
            raise UnreadableDocument(f"The file has over {_MAX_COLUMNS} columns.")
        if found[3] != delimiter:
            if len(row) > 1 or row[0].text or row[0].is_quoted:
                yield row
            row = []


def _chosen(header: list[str], columns: str) -> list[_Column]:
    """The columns that the option names. Raises WrongOption."""
    found = []
    for name in filter(None, (part.strip() for part in columns.split(","))):
        left, _, right = name.partition("=") if name not in header else (name, "", "")
        source = _index(header, left.strip())
        found.append(_Column(source, _index(header, right.strip()) if right.strip() else source))
    if len({column.target for column in found}) < len(found):
        raise WrongOption("columns", "A column is named twice among those to translate.")
    if any(count > _MAX_COPIES for count in Counter(column.source for column in found).values()):
        raise WrongOption("columns", f"A column is to be translated into over {_MAX_COPIES} columns.")
    return sorted(found, key=max)


def _index(header: list[str], name: str) -> int:
    if name in header:
        return header.index(name)
    if name.isascii() and name.isdecimal() and 0 < int(name[:6]) <= len(header):
        return int(name) - 1
    raise WrongOption("columns", f"The file has no column {name!r}; {_known(header)}")


def _known(header: list[str]) -> str:
    shown = " ".join(", ".join(header[:10])[:200].split())
    return f"its columns are {shown}{', ...' if len(header) > 10 else ''}."


def _by_language(header: list[str], source: str, target: str) -> list[_Column]:
    """The columns that are named after the two languages. Raises WrongOption."""
    codes = [name.replace("_", "-").lower() for name in header]
    wanted = [code.replace("_", "-").lower() for code in (source, target)]
    if source != AUTO and all(code in codes for code in wanted) and wanted[0] != wanted[1]:
        return [_Column(codes.index(wanted[0]), codes.index(wanted[1]))]
    raise WrongOption("columns", f"Name the columns to translate with the option columns; {_known(header)}")


def _values(row: list[_Field], header: list[str], chosen: list[_Column], delimiter: str) -> Iterator[Value]:
    for column in chosen:
        if max(column) >= len(row):
            return  # they are in the order of their last column
        source, target = row[column.source], row[column.target]
        adds = source is not target
        if adds and (target.text.strip() or not any(map(str.isalpha, source.text))):
            continue
        encode = partial(_written, source.is_quoted or target.is_quoted, delimiter)
        yield Value(target.start, target.end, source.text, encode, header[column.target], adds)


def _written(is_quoted: bool, delimiter: str, text: str) -> str:
    if is_quoted or delimiter in text or _NEEDS_QUOTES.search(text):
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text
