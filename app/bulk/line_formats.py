"""Formats of one row a line: plain text, tab-separated values, JSON lines; each perhaps compressed.

Everything of a row that is not translated stays as it was, byte for byte.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, NamedTuple, cast

from app.bulk.places import NEEDS_PYARROW
from app.bulk.rows import NEW_COLUMNS, NOT_UTF8, SURROGATE, Row, Translated, text_row
from app.bulk.shards import Shard

_BATCH_ROWS = 1_000
_BUFFER_BYTES = 1 << 18
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Unsuitable(ValueError):
    """A file cannot be translated; one line says why, without naming it."""


class Line(NamedTuple):
    text: str
    """Decoded with "surrogateescape", so that any bytes come back."""
    end: str
    """ "\\n", or nothing at the end of a file."""

    def render(self, text: str) -> bytes:
        return (text + self.end).encode("utf-8", "surrogateescape")


def decompressed(file: BinaryIO, compression: str) -> BinaryIO:
    """Raises Unsuitable."""
    if compression == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file, mode="rb"))
    if compression == ".zst":
        return io.BufferedReader(_pyarrow().CompressedInputStream(file, "zstd"), _BUFFER_BYTES)
    if isinstance(file, io.BufferedIOBase):
        return cast(BinaryIO, file)
    return io.BufferedReader(cast(Any, file), _BUFFER_BYTES)  # pyarrow's files would ask for each line


class LineWriter:
    """Writes the lines of a shard into `file`, compressed like the input, with the same bytes each time."""

    def __init__(self, file: BinaryIO, compression: str) -> None:
        self._file: Any = file
        if compression == ".gz":
            self._file = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
        elif compression == ".zst":
            self._file = _pyarrow().CompressedOutputStream(_LeftOpen(file), "zstd")
        self._own = self._file is not file

    def write(self, row: Row, done: Translated) -> None:
        self._file.write(row.render(done))

    def close(self) -> None:
        """Completes the content, and leaves the file open."""
        if self._own:
            self._file.close()


class _LeftOpen:
    """A file that pyarrow must not close with its own."""

    def __init__(self, file: BinaryIO) -> None:
        self.write, self.flush, self.tell, self.closed = file.write, file.flush, file.tell, False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        pass


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise Unsuitable(NEEDS_PYARROW) from None
    return pyarrow


def check_lines(file: BinaryIO, suffix: str, compression: str, column: str) -> None:
    """Raises Unsuitable unless the beginning of the file is of this format and has the column; OSError, EOFError."""
    content = decompressed(file, compression)
    first = content.readline()
    if first.startswith(_UTF16):
        raise Unsuitable("is UTF-16; convert it to UTF-8")
    if suffix == ".tsv" and first:
        _Tsv(_line(first), column)
    if suffix == ".jsonl":
        while first and not first.strip():
            first = content.readline()
        if first:
            _check_object(first, column)


def read_lines(file: BinaryIO, shard: Shard, column: str) -> Iterator[list[Row]]:
    """Yields the rows of a shard. Raises Unsuitable, OSError and EOFError."""
    content = decompressed(file, shard.compression)
    rows: Iterator[Row]
    if shard.suffix == ".tsv":
        header = content.readline()
        rows = _Tsv(_line(header), column).rows(_lines_of(content, shard, len(header))) if header else iter(())
    elif shard.suffix == ".jsonl":
        rows = (_jsonl_row(number, line, column) for number, line in enumerate(_lines_of(content, shard), 1))
    else:
        rows = (_txt_row(number, line) for number, line in enumerate(_lines_of(content, shard), 1))
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield batch


def _lines_of(content: BinaryIO, shard: Shard, begin: int = 0) -> Iterator[Line]:
    """The lines that begin within the shard; `begin`: where the first of the file does."""
    if shard.compression:
        yield from map(_line, content)
        return
    position = begin
    if shard.start > 0:
        content.seek(shard.start - 1)  # a line begins at `start` if the byte before is the end of one
        position = shard.start - 1 + len(content.readline())
    while position < shard.end and (raw := content.readline()):
        position += len(raw)
        yield _line(raw)


def _line(raw: bytes) -> Line:
    text = raw.decode("utf-8", "surrogateescape")
    return Line(text[:-1], "\n") if text.endswith("\n") else Line(text, "")


def _txt_row(number: int, line: Line) -> Row:
    """As standard input is translated: a line break that the model writes becomes a space."""
    return text_row(number, line.text, lambda done: line.render((done.translation or "").replace("\n", " ")))


class _Tsv:
    """Tab-separated values with a header, without quotes: a tab is always the end of a field."""

    def __init__(self, header: Line, column: str) -> None:
        """Raises Unsuitable."""
        self._header = header
        self._names = header.text.removesuffix("\r").split("\t")
        names = [self._names[0].removeprefix("\ufeff"), *self._names[1:]]
        if column not in names:
            raise Unsuitable(f"has no column {column}: its first line has {', '.join(names)}")
        if taken := [name for name in NEW_COLUMNS if name in names]:
            raise Unsuitable(f"already has a column {taken[0]}")
        self._column, self._index = column, names.index(column)

    def rows(self, lines: Iterator[Line]) -> Iterator[Row]:
        header = Line(
            "\t".join([*self._names, *NEW_COLUMNS]) + ("\r" if self._header.text.endswith("\r") else ""), "\n"
        )
        yield Row(1, (), lambda done: header.render(header.text))
        for number, line in enumerate(lines, 2):
            yield self._row(number, line)

    def _row(self, number: int, line: Line) -> Row:
        text = line.text.removesuffix("\r")
        fields = text.split("\t")
        missing = len(self._names) - len(fields)
        end = Line("", line.text[len(text) :] + line.end)

        def render(done: Translated) -> bytes:
            score = "" if done.score is None else str(done.score)
            new = [done.translation or "", score, " | ".join(done.warnings)]
            cells = [*fields, *[""] * missing, *(re.sub(r"[\t\r\n]+", " ", cell) for cell in new)]
            return end.render("\t".join(cells))

        if not text:
            return Row(number, (), render)
        if missing < 0:
            reason = f"it has {len(fields)} fields, and the header {len(self._names)}"
            return Row(number, (), render, reason, fields[self._index])
        if self._index >= len(fields):
            return Row(number, (), render, f"it has no field {self._column}")
        return text_row(number, fields[self._index], render)


def _jsonl_row(number: int, line: Line, column: str) -> Row:
    body = line.text.rstrip()
    end = Line("", line.text[len(body) :] + line.end)
    body = body.removeprefix("\ufeff")

    def unchanged(done: Translated) -> bytes:
        return line.render(line.text)

    if not body:
        return Row(number, (), unchanged)
    if SURROGATE.search(body):
        return Row(number, (), unchanged, NOT_UTF8)
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return Row(number, (), unchanged, "it is not a JSON object")
    if taken := [name for name in NEW_COLUMNS if name in fields]:
        return Row(number, (), unchanged, f"it already has a field {taken[0]}")
    head = body[:-1]
    separator = ", " if fields else ""

    def render(done: Translated) -> bytes:
        new = dict(zip(NEW_COLUMNS, (done.translation, done.score, list(done.warnings)), strict=True))
        return end.render(f"{head}{separator}{_json(new)[1:]}")

    text = fields.get(column)
    if isinstance(text, str):
        return text_row(number, text, render)
    if column in fields and text is None:
        return Row(number, (), render)
    reason = f"its {column} is not a string" if column in fields else f"it has no field {column}"
    return Row(number, (), render, reason)


def _json(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if SURROGATE.search(text) else text


def _check_object(line: bytes, column: str) -> None:
    """Raises Unsuitable if the first line of a file is no object with this column."""
    row = _jsonl_row(1, _line(line), column)
    if row.failure and row.failure != NOT_UTF8:
        raise Unsuitable(f"cannot be translated: line 1: {row.failure}")
