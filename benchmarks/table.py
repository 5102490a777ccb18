"""Results of a benchmark by row and column, as text and as JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Cell = float | list[float] | None


@dataclass
class Table:
    """Figures by row and column. A list has one value per round; the table shows median and range."""

    title: str
    columns: Sequence[str]
    rows: dict[str, list[Cell]] = field(default_factory=dict)
    note: str = ""

    def lines(self) -> Iterator[str]:
        cells = {label: [shown(cell) for cell in row] for label, row in self.rows.items()}
        first = max(map(len, cells), default=0)
        widths = [max(map(len, column)) for column in zip(self.columns, *cells.values(), strict=True)]
        yield f"{self.title}{':' if self.note else ''} {self.note}".rstrip()
        for label, row in {"": list(self.columns), **cells}.items():
            yield f"  {label:<{first}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(row, widths, strict=True))

    def as_json(self) -> dict[str, Any]:
        rows = {label: dict(zip(self.columns, row, strict=True)) for label, row in self.rows.items()}
        return {"title": self.title, "note": self.note, "rows": rows}


def shown(cell: Cell) -> str:
    """The cell with at least three digits; "-" for None, an unknown value."""
    if cell is None:
        return "-"
    if isinstance(cell, list):
        spread = f" ({shown(min(cell))} to {shown(max(cell))})" if len(cell) > 1 else ""
        return shown(statistics.median(cell)) + spread
    digits = 0 if cell == int(cell) else max(0, 2 - math.floor(math.log10(abs(cell))))
    return f"{cell:,.{digits}f}" if digits < 6 else f"{cell:.1e}"
