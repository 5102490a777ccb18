"""A row of a shard: what is translated of it, and what becomes of it afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from app.cli.line_reader import split_long
from app.cli.offline_engine import Report, Session, split_windows
from app.formats import TextLocation
from app.translation.types import TranslatedText

NOT_UTF8 = "it is not UTF-8"
SURROGATE = re.compile("[\ud800-\udfff]")
NEW_COLUMNS = ("translation", "score", "warnings")


class Translated(NamedTuple):
    """What the new columns of a row contain."""

    translation: str | None
    """None if the row has no text; the text itself if it could not be translated."""
    score: float | None = None
    """Mean log probability of the tokens, rounded; None if nothing was translated."""
    warnings: Sequence[str] = ()


class Row(NamedTuple):
    """A row of the input, which becomes one row of the output."""

    number: int
    """Its line in the output, or its row, counted from 1."""
    texts: Sequence[str] = ()
    """Its text, a very long one in parts; empty if there is nothing to translate."""
    render: Callable[[Translated], bytes] = lambda done: b""
    """The line to write; Parquet has another way."""
    failure: str = ""
    """Why it cannot be translated."""
    kept: str | None = None
    """The text, if it cannot be translated but is a text."""


def text_row(number: int, text: str, render: Callable[[Translated], bytes] = lambda done: b"") -> Row:
    """The row of a text that was decoded with "surrogateescape": bytes that are not UTF-8 make it untranslatable."""
    if SURROGATE.search(text):
        return Row(number, (), render, NOT_UTF8, text)
    return Row(number, split_long(text), render)


def row_windows(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Splits rows into windows for the translator."""
    return split_windows(rows, lambda row: sum(map(len, row.texts)))


async def translate_rows(rows: Sequence[Row], session: Session, report: Report, name: str) -> list[Translated]:
    """Translates one window. `name`: that of the output, for the report."""
    texts = [text for row in rows for text in row.texts]
    parts = iter(await session.translate(texts) if texts else ())
    return [_translated(row, [next(parts) for _ in row.texts], report, name) for row in rows]


def _translated(row: Row, parts: Sequence[TranslatedText], report: Report, name: str) -> Translated:
    location = TextLocation(name=f"{name}:{row.number}")
    if row.failure:
        report.add_failure(location, row.failure)
        return Translated(row.kept, None, [_not_translated(row.failure)])
    if not parts:
        return Translated(None)
    for part in parts:
        report.add(location, part)
    texts = [text if part.text is None else part.text for text, part in zip(row.texts, parts, strict=True)]
    warnings = [
        each for part in parts for each in ([_not_translated(part.error.detail)] if part.error else part.warnings)
    ]
    return Translated("".join(texts), _mean_score(row.texts, parts), list(dict.fromkeys(warnings)))


def _not_translated(reason: str) -> str:
    return f"not translated: {reason}"


def _mean_score(texts: Sequence[str], parts: Sequence[TranslatedText]) -> float | None:
    """The mean of the scores, weighted by the texts' lengths."""
    scored = [(part.score, len(text)) for text, part in zip(texts, parts, strict=True) if part.score is not None]
    if len(scored) == 1:
        return round(scored[0][0], 4)
    total = sum(size for _, size in scored)
    return round(sum(score * size for score, size in scored) / total, 4) if total else None
