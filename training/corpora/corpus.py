"""Reads and writes files of sentence pairs; skips broken lines.

Limits on tokens and length ratios are in `training.data.tokenise`.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import lzma
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from training.corpora.columns import (
    are_quoted,
    csv_hint,
    first_rows,
    first_text_columns,
    ignored_columns,
    is_header,
    named_columns,
    unquoted,
)
from training.corpora.text_file import CorpusError, TextFile, open_text, short_repr

_EXPECTED = "expected a source sentence, a tab and its translation"
_MAX_SHOWN_LINES = 5
_MAX_SHOWN_CHARS = 200
_LINE_OR_COLUMN_BREAK = re.compile(r"[\t\n\r]")
_WIDE_CHARACTER = re.compile(r"[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LETTERS_PER_WIDE_CHARACTER = 3
WEIGHT_SUFFIX = re.compile(r"(.+):(\d+\.?\d*|\.\d+)")


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


NumberedPair = tuple[int, Pair]
"""A pair and the number of its line, from 1."""


@dataclass(frozen=True)
class CorpusSpec:
    """A corpus as the user named it: a TSV file, or two plain files in which line n translates line n.

    `weight`: how often each pair is drawn per epoch, on average. `source_first`: the languages of columns or files are
    known, so that `columns` does not apply. `is_utf8`: the requested encoding does not apply.
    """

    paths: tuple[Path, ...]
    weight: float = 1.0
    source_first: bool = False
    is_utf8: bool = False

    @property
    def name(self) -> str:
        return ",".join(path.name for path in self.paths)


def parse_spec(text: str) -> CorpusSpec:
    """Parses `file.tsv`, `file.tsv:0.25` (with a weight), `a.en,b.fr` (two plain files) or `a.en,b.fr:2`.

    If a file of the whole name exists, that file is meant, even if its name has colons or commas. Only a number after
    the last colon is a weight, so `C:\\my.tsv` is a path. Raises CorpusError.
    """
    match = None if Path(text).exists() else WEIGHT_SUFFIX.fullmatch(text)
    if match is None:
        return CorpusSpec(_existing_paths(text))
    return CorpusSpec(_existing_paths(match[1]), parse_weight(match[1], match[2]))


def parse_weight(name: str, weight: str) -> float:
    """Parses the weight of the corpus `name`. Raises CorpusError if it is invalid."""
    if not (0 < float(weight) < math.inf):
        raise CorpusError(name, f"the weight must be above 0, not {weight}")
    return float(weight)


def _existing_paths(text: str) -> tuple[Path, ...]:
    if Path(text).exists():
        return (Path(text),)
    commas = [index for index in range(1, len(text) - 1) if text[index] == ","]
    halves = [(Path(text[:index]), Path(text[index + 1 :])) for index in commas]
    for pair in halves:
        if all(path.exists() for path in pair):
            return pair
    missing = next(path for path in halves[0] if not path.exists()) if len(halves) == 1 else Path(text)
    raise CorpusError(missing, "no such file")


class Example(NamedTuple):
    """A line of a file and its two sides, shortened for display."""

    line: int
    source: str
    target: str


@dataclass
class LineTally:
    """Lines counted by reason, such as those skipped or repaired: how many, the numbers of the first few, and their
    content where available."""

    counts: Counter[str] = field(default_factory=Counter)
    first_lines: dict[str, list[int]] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def add(self, reason: str, line: int, pair: Pair | None = None) -> None:
        self.counts[reason] += 1
        numbers = self.first_lines.setdefault(reason, [])
        if len(numbers) < _MAX_SHOWN_LINES:
            numbers.append(line)
            if pair is not None:
                self.examples.setdefault(reason, []).append(Example(line, *map(_truncated, pair)))

    def merge(self, later: LineTally) -> None:
        """Adds the counts of later lines."""
        self.counts.update(later.counts)
        for reason, numbers in later.first_lines.items():
            shown = self.first_lines.setdefault(reason, [])
            taken = numbers[: _MAX_SHOWN_LINES - len(shown)]
            shown += taken
            examples = [example for example in later.examples.get(reason, ()) if example.line in taken]
            if examples:
                self.examples.setdefault(reason, []).extend(examples)

    def needs_example(self, reason: str) -> bool:
        """Whether `add` would keep another example for `reason`."""
        return len(self.first_lines.get(reason, ())) < _MAX_SHOWN_LINES

    def reasons(self) -> list[str]:
        """The reasons, most frequent first."""
        return [reason for reason, _ in self.counts.most_common()]

    def describe(self, done: str = "left out") -> Iterator[str]:
        """One line per reason, most frequent first: "3 lines left out: an empty side (lines 7, 9, 31)"."""
        for reason, count in self.counts.most_common():
            lines = "1 line" if count == 1 else f"{count:,} lines"
            numbers = ", ".join(map(str, self.first_lines[reason])) + (", ..." if count > _MAX_SHOWN_LINES else "")
            yield f"{lines} {done}: {reason} ({'line' if count == 1 else 'lines'} {numbers})"


def _truncated(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 4]} ..."


@dataclass(frozen=True)
class Corpus:
    """An examined corpus. `columns` is the number of columns of a TSV file, of which `source` and `target` (from 0) are
    read; it is 0 for two plain files."""

    spec: CorpusSpec
    files: tuple[TextFile, ...]
    columns: int = 0
    source: int = 0
    target: int = 1
    header: bool = False
    note: str = ""
    quoted: bool = False
    """Whether cells are quoted as in spreadsheets and CSV files; the quotes are removed."""
    swapped: bool = False
    """Whether source and target are swapped compared with what was assumed; see `training.cleaning.language_check`."""

    @property
    def name(self) -> str:
        return self.spec.name

    def describe(self) -> str:
        """One line about what was assumed of the file or files."""
        weight = "" if self.spec.weight == 1 else f"; weight {self.spec.weight:g}"
        formats = "; ".join(file.describe() for file in self.files)
        note = self.note + ("; the two languages are swapped" if self.swapped else "")
        if not self.columns:
            return f"{self.name}: two plain files, line by line{note}; {formats}{weight}"
        header = "the first line is a header" if self.header else "no header"
        note = ("; quotes around cells are removed" if self.quoted else "") + note
        taken = f"{self.columns} columns, source in {self.source + 1} and target in {self.target + 1}{note}"
        return f"{self.name}: {formats}; {header}; {taken}{weight}"

    def pairs(self, skipped: LineTally) -> Iterator[NumberedPair]:
        """Yields the usable pairs with their line numbers, stripped of white space; counts other lines in `skipped`.

        Raises CorpusError if a file is truncated, or two plain files differ in length.
        """
        for number, cells in enumerate(self._rows(), 1):
            if self.header and number == 1:
                continue
            reason, pair = self._pair(cells)
            if reason is None:
                yield number, pair
            else:
                skipped.add(reason, number, pair)

    def _rows(self) -> Iterator[list[str]]:
        if self.columns:
            yield from (line.split("\t") for line in self.files[0].lines())
            return
        number = 0
        for number, (source, target) in enumerate(zip_longest(*(file.lines() for file in self.files)), 1):
            if source is None or target is None:
                short = self.files[source is not None].path
                raise CorpusError(
                    short,
                    f"ends after line {number - 1}, but the other file is longer; both must have equal lengths",
                )
            yield [source, target]

    def _pair(self, cells: list[str]) -> tuple[str | None, Pair]:
        """The pair in a row, and the reason if it cannot be used."""
        if not any(cell.strip() for cell in cells):
            return "an empty line", Pair("", "")
        if self.columns and len(cells) != self.columns:
            return f"{len(cells)} instead of {self.columns} columns", Pair("\t".join(cells[:-1]), cells[-1])
        pair = Pair(*((unquoted(cells[n]) if self.quoted else cells[n]).strip() for n in (self.source, self.target)))
        if not pair.source or not pair.target:
            return "an empty side", pair
        if "\ufffd" in pair.source or "\ufffd" in pair.target:
            return "undecodable bytes", pair
        if _LINE_OR_COLUMN_BREAK.search(pair.source) or _LINE_OR_COLUMN_BREAK.search(pair.target):
            return "a tab or line end inside a sentence", pair
        return None, pair


def open_corpus(
    spec: CorpusSpec,
    source: str = "source",
    target: str = "target",
    columns: tuple[int, int] | None = None,
    encoding: str | None = None,
) -> Corpus:
    """Decides from the beginning of a corpus how to read it.

    `source` and `target` are language codes, by which a header may name the columns. `columns` (from 1) and `encoding`
    override detection. Raises CorpusError, showing line 1, if this is not a file of pairs.
    """
    files = tuple(open_text(path, "utf-8" if spec.is_utf8 else encoding) for path in spec.paths)
    columns = None if spec.source_first else columns
    if len(files) == 2:
        return Corpus(spec, files) if columns is None else _select_files(Corpus(spec, files), columns)
    number, first, rows = first_rows(files[0])
    count, times = Counter(map(len, rows)).most_common(1)[0]
    if count < 2:
        raise CorpusError(spec.paths[0], f"no tab in {short_repr(first)}; {_EXPECTED}{csv_hint(rows)}", number)
    if 2 * times <= len(rows):
        raise CorpusError(
            spec.paths[0], f"lines differ in columns; the first is {short_repr(first)}; {_EXPECTED}", number
        )
    quoted = are_quoted([row for row in rows if len(row) == count])
    rows = [[unquoted(cell) for cell in row] for row in rows] if quoted else rows
    names = rows[0]
    header = number == 1 and len(names) == count and is_header(names, source, target)
    rows = [row for row in rows[int(header) :] if len(row) == count]
    if columns is not None:
        return _select_columns(
            Corpus(spec, files, count, header=header, quoted=quoted, note=" as requested"), columns, first
        )
    if header and (named := named_columns(names, source, target)):
        note = ", by the header" if named != (0, 1) else ""
        return Corpus(spec, files, count, *named, header=header, quoted=quoted, note=note)
    columns_of_cells = [[row[column].strip() for row in rows] for column in range(count)]
    taken = first_text_columns(columns_of_cells)
    return Corpus(spec, files, count, *taken, header, ignored_columns(taken, columns_of_cells), quoted)


def _select_columns(corpus: Corpus, columns: tuple[int, int], first: str) -> Corpus:
    if max(columns) > corpus.columns:
        message = f"there are {corpus.columns} columns, not {max(columns)}: {short_repr(first)}"
        raise CorpusError(corpus.spec.paths[0], message, 1)
    return dataclasses.replace(corpus, source=columns[0] - 1, target=columns[1] - 1)


def _select_files(corpus: Corpus, columns: tuple[int, int]) -> Corpus:
    """For two plain files, the first is column 1 and the second is column 2."""
    if max(columns) > 2:
        raise CorpusError(corpus.spec.paths[0], f"there are two files, so there is no column {max(columns)}")
    note = f"; source in the {'first' if columns[0] == 1 else 'second'} as requested"
    return dataclasses.replace(corpus, source=columns[0] - 1, target=columns[1] - 1, note=note)


def read_pairs(path: Path | str, source: str = "source", target: str = "target") -> tuple[list[Pair], LineTally]:
    """Reads all usable pairs of one file, including duplicates, and counts the skipped lines. For files that fit in
    memory."""
    skipped = LineTally()
    corpus = open_corpus(CorpusSpec((Path(path),)), source, target)
    return [pair for _, pair in corpus.pairs(skipped)], skipped


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Writes a UTF-8 TSV, compressed if the name ends in .gz or .xz, and returns the number of pairs.

    Raises ValueError if a sentence contains a tab or a line end, which the format cannot represent.
    """
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    count = 0
    with opener(path, "wt", encoding="utf-8", newline="\n") as file:
        for count, pair in enumerate(pairs, 1):  # noqa: B007
            if _LINE_OR_COLUMN_BREAK.search(pair.source) or _LINE_OR_COLUMN_BREAK.search(pair.target):
                raise ValueError(f"a sentence with a tab or line end cannot be written: {short_repr(str(pair))}")
            file.write(f"{pair.source}\t{pair.target}\n")
    return count


def letter_count(text: str) -> int:
    """The length of a text in letters; an ideograph or syllable counts as three."""
    return len(text) + (_LETTERS_PER_WIDE_CHARACTER - 1) * len(_WIDE_CHARACTER.findall(text))


def hash64(text: str) -> int:
    """A signed 64-bit hash, the same in every process. Among a million distinct texts, a collision has a probability
    below 1 in 10^7."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
