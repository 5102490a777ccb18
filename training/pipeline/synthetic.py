"""Makes the synthetic corpora of a recipe, by `translate`, before the run prepares its data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from model.atomic_files import write_atomically
from training.options import Values
from training.synthetic.translate import TranslateOptions, made_from, translate_file

FOLDER = "synthetic"
"""The folder in a work folder."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class SyntheticCorpus:
    """A corpus that `translate` makes, whose pairs an epoch draws `weight` times each. Its file has the student's
    source first."""

    options: TranslateOptions
    weight: float = 1.0

    @classmethod
    def of(cls, table: Values, work: Path, device: str, threads: int | None, held_out: tuple[str, ...]) -> Self:
        """The corpus that a recipe's table [[synthetic]] describes, in the folder `work`, without the sentences of the
        files `held_out`."""
        given = {name: value for name, value in table.items() if name not in ("name", "weight")}
        out = work / FOLDER / f"{table['name']}.tsv"
        given |= {name: Path(given[name]) for name in ("bundle", "texts") if name in given}
        given["without"] = (*held_out, *given.get("without", ()))
        options = TranslateOptions(out, **given, device=device, threads=threads, replace=True)
        return cls(options, table.get("weight", 1.0))

    @property
    def text(self) -> str:
        """The corpus as --pairs takes it."""
        return f"{self.options.out}:{self.weight:g}"

    @property
    def is_up_to_date(self) -> bool:
        """Whether the file was made of what it would be made of now. Raises BundleError and CorpusError."""
        record = self._record
        if not (self.options.out.exists() and record.exists()):
            return False
        return record.read_text(encoding="utf-8") == _as_json(made_from(self.options))

    def make(self, say: Say) -> None:
        """Makes the file, or resumes. Raises the errors of `translate_file`."""
        self._record.unlink(missing_ok=True)
        say(f"making {self.options.out.name} ...")
        made = translate_file(self.options, say)
        write_atomically(self._record, _as_json(made).encode())

    @property
    def _record(self) -> Path:
        return self.options.out.with_suffix(".json")


def _as_json(record: Values) -> str:
    return json.dumps(record, indent=2) + "\n"
