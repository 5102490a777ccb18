"""Writes a TSV file over several runs: what is written survives a kill, and the same command resumes.

The pairs are in a temporary file beside the final one; another file records how much of the input they cover.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from model.atomic_files import write_atomically
from training.corpora.corpus import LineTally, Pair


class ResumableTsv:
    """Collects pairs for the file `out`, which appears once all are added.

    `last_line` is the last line of the input that has been processed, `failed` those that yielded no pair.
    """

    def __init__(self, out: Path, settings: Mapping[str, Any]) -> None:
        """`settings`: all that the pairs depend on. Raises ValueError if existing pairs were made with others."""
        self.out = out
        self.path, self._record = (out.with_name(f".{out.name}.partial{suffix}") for suffix in ("", ".json"))
        self._settings = json.loads(json.dumps(settings))
        self.last_line, self.pairs, self.failed = 0, 0, LineTally()
        self._bytes = 0
        if self.path.exists() and self._record.exists():
            self._resume(json.loads(self._record.read_bytes()))
        else:
            self._record.unlink(missing_ok=True)  # a record of pairs that are gone
        out.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "r+b" if self._bytes else "wb")  # noqa: SIM115  # `close` is there
        self._file.truncate(self._bytes)  # pairs after the last record will be made again
        self._file.seek(self._bytes)

    def _resume(self, record: Mapping[str, Any]) -> None:
        for name, value in record["settings"].items():
            if (now := self._settings.get(name)) != value:
                raise ValueError(
                    f"{self.path} was started with {name} {json.dumps(value)}, not {json.dumps(now)}: delete it, or "
                    "give another --out"
                )
        self.last_line, self.pairs, self._bytes = record["last_line"], record["pairs"], record["bytes"]
        self.failed.counts.update(record["failed"]["counts"])
        self.failed.first_lines.update(record["failed"]["first"])

    def add(self, pairs: Sequence[Pair], failed: Sequence[tuple[int, str]], last_line: int) -> None:
        """Adds the pairs made of the input up to `last_line`, and the lines and reasons where none was made."""
        self._file.write("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        for line, reason in failed:
            self.failed.add(reason, line)
        self.last_line, self.pairs, self._bytes = last_line, self.pairs + len(pairs), self._file.tell()
        record = {
            "settings": self._settings,
            "last_line": self.last_line,
            "pairs": self.pairs,
            "bytes": self._bytes,
            "failed": {"counts": dict(self.failed.counts), "first": self.failed.first_lines},
        }
        write_atomically(self._record, json.dumps(record).encode())

    def finish(self) -> None:
        """Moves the file to its place. Raises ValueError if it has no pair."""
        self.close()
        if not self.pairs:
            raise ValueError(f"no pair was made: {next(self.failed.describe(), 'there was nothing to translate')}")
        os.replace(self.path, self.out)
        self._record.unlink()

    def close(self) -> None:
        self._file.close()
