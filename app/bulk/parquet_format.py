"""Parquet by pyarrow: the rows of row groups, and a file of the same columns and the new ones.

This module needs pyarrow, and is imported where a Parquet file is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from app.bulk.line_formats import Unsuitable
from app.bulk.rows import NEW_COLUMNS, Row, Translated, text_row
from app.bulk.shards import SHARD_ROWS, Shard


def row_counts(file: BinaryIO, column: str) -> list[int]:
    """The rows of each row group. Raises Unsuitable, and OSError."""
    try:
        parquet = pq.ParquetFile(file)
        schema = parquet.schema_arrow
    except pa.ArrowInvalid as error:
        raise Unsuitable(f"is no Parquet file that can be read ({str(error).partition(chr(10))[0]})") from None
    check_columns(schema, column)
    return [parquet.metadata.row_group(group).num_rows for group in range(parquet.num_row_groups)]


def check_columns(schema: Any, column: str) -> None:
    """Raises Unsuitable unless the column has text and the new columns are free."""
    if column not in schema.names:
        raise Unsuitable(f"has no column {column}: it has {', '.join(schema.names)}")
    if taken := [name for name in NEW_COLUMNS if name in schema.names]:
        raise Unsuitable(f"already has a column {taken[0]}")
    if schema.names.count(column) > 1:
        raise Unsuitable(f"has several columns {column}")
    if not _is_text(schema.field(column).type):
        raise Unsuitable(f"has {schema.field(column).type} in column {column}, not text")


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def read_batches(file: BinaryIO, shard: Shard, column: str) -> Iterator[tuple[Any, list[Row]]]:
    """Yields batches of columns and their rows; the first batch is empty and has the columns alone.

    Raises OSError and pyarrow's errors, which are ValueErrors.
    """
    parquet = pq.ParquetFile(file)
    yield parquet.schema_arrow.empty_table(), []
    number = 0
    groups = list(range(shard.start, shard.end))
    for batch in parquet.iter_batches(batch_size=SHARD_ROWS, row_groups=groups) if groups else ():
        rows = [
            Row(at) if text is None else text_row(at, text)
            for at, text in enumerate(texts_of(batch.column(column)), number + 1)
        ]
        number += len(rows)
        yield pa.Table.from_batches([batch]), rows


def texts_of(column: Any) -> list[str | None]:
    """The texts, decoded with "surrogateescape"."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return [None] * len(column)
    raw = column.cast(pa.large_binary()).to_pylist()
    return [None if each is None else each.decode("utf-8", "surrogateescape") for each in raw]


def with_translations(table: Any, done: list[Translated]) -> Any:
    """The table with the new columns."""
    # Bytes that were no UTF-8 come out as they went in, as in the text's own column.
    raw = [None if (text := each.translation) is None else text.encode("utf-8", "surrogateescape") for each in done]
    arrays = (
        pa.array(raw, pa.binary()).view(pa.string()),
        pa.array([each.score for each in done], pa.float64()),
        pa.array([list(each.warnings) for each in done], pa.list_(pa.string())),
    )
    for name, array in zip(NEW_COLUMNS, arrays, strict=True):
        table = table.append_column(name, array)
    return table


class ParquetTarget:
    """Writes the batches of a shard with the new columns, each as soon as its last row is translated."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: Any = None
        self._batches: list[tuple[Any, int]] = []
        self._done: list[Translated] = []

    def expect(self, table: Any, rows: int) -> None:
        """Says that the next `rows` rows are those of `table`."""
        self._batches.append((table, rows))
        self._flush()

    def write(self, row: Row, done: Translated) -> None:
        self._done.append(done)
        self._flush()

    def _flush(self) -> None:
        while self._batches and len(self._done) >= self._batches[0][1]:
            table, rows = self._batches.pop(0)
            table = with_translations(table, self._done[:rows])
            del self._done[:rows]
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._file, table.schema)
            if rows:
                self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()
