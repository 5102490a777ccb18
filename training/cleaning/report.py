"""Reports what `prepare` did with the lines of each corpus: a summary on screen, and details in the data folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.corpora.corpus import Corpus, LineTally
from training.corpora.text_file import short_repr

TEXT_FILE, JSON_FILE = "report.txt", "report.json"
_MAX_SIDE_CHARS = 40


@dataclass(frozen=True)
class CorpusReport:
    """What happened to the lines of a corpus: how many were `kept`, and which were `dropped` or `repaired`."""

    corpus: Corpus
    kept: int
    dropped: LineTally
    repaired: LineTally

    @property
    def read(self) -> int:
        return self.kept + self.dropped.counts.total()

    def summary_lines(self) -> Iterator[str]:
        """Yields a line for each reason, most frequent first, and a line with an example."""
        for done, lines in (("repaired", self.repaired), ("left out", self.dropped)):
            for line, reason in zip(lines.describe(done), lines.reasons(), strict=True):
                yield f"{self.corpus.name}: {line}"
                yield from _example(lines, reason)

    def detail_lines(self) -> Iterator[str]:
        yield self.corpus.describe()
        yield f"  {self.read:,} lines read, {self.kept:,} kept ({100 * self.kept / max(1, self.read):.1f} %)"
        for title, lines in (("repaired", self.repaired), ("left out", self.dropped)):
            if lines.counts:
                yield f"  {title}:"
            for reason in lines.reasons():
                yield f"  {lines.counts[reason]:>9,}  {reason}"
                for number, source, target in lines.examples.get(reason, []):
                    yield f"             line {number}: {source!r} | {target!r}"

    def as_json(self) -> dict[str, Any]:
        lines = {"read": self.read, "kept": self.kept}
        done = {"put_right": _as_json(self.repaired), "left_out": _as_json(self.dropped)}
        return {"name": self.corpus.name, "assumed": self.corpus.describe(), **lines, **done}


def write_report(folder: Path, reports: Sequence[CorpusReport]) -> None:
    text = "\n".join(line for report in reports for line in [*report.detail_lines(), ""])
    (folder / TEXT_FILE).write_text(text, encoding="utf-8")
    found = {"corpora": [report.as_json() for report in reports]}
    (folder / JSON_FILE).write_text(json.dumps(found, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _example(lines: LineTally, reason: str) -> Iterator[str]:
    for example in lines.examples.get(reason, [])[:1]:
        if any(example[1:]):
            yield f"    line {example.line}: {' | '.join(short_repr(side, _MAX_SIDE_CHARS) for side in example[1:])}"


def _as_json(lines: LineTally) -> list[dict[str, Any]]:
    return [
        {
            "reason": reason,
            "lines": lines.counts[reason],
            "first_lines": lines.first_lines[reason],
            "examples": [example._asdict() for example in lines.examples.get(reason, [])],
        }
        for reason in lines.reasons()
    ]
