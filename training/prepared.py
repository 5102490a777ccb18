"""The data folder between `prepare` and `train`: what is in it, and how it is put in place whole.

How the pairs were chosen is `training.prepare`'s, how their tokens are stored `training.shards`'s, and how they are
drawn `training.batches`'s.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT_VERSION = 2


@dataclass(frozen=True)
class PreparedSummary:
    """`prepared.json`. `pairs` are those of the token files, the last of which are copies: `reserved_copies` with
    reserved symbols, then `augmented_copies` in other case or punctuation. Of each corpus, `read` lines are `kept` or
    `skipped` by reason. `files`: see `training.shards.files_of`."""

    source: str
    target: str
    vocab_size: int
    pairs: int
    dev_pairs: int
    seed: int
    corpora: list[dict[str, Any]]
    reserved_copies: int
    sha256: dict[str, str]
    options: dict[str, Any]
    files: dict[str, list[int | str]]
    sources_with_end_marks: float = 0.0
    """The share of all that an epoch draws, copies included, whose source ends as a sentence does: see model.marks."""
    augmented_copies: int = 0
    format_version: int = FORMAT_VERSION

    @classmethod
    def load(cls, folder: Path) -> PreparedSummary:
        """Raises ValueError, in one line, if `folder` is no data folder of this version."""
        path = folder / "prepared.json"
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            if fields["format_version"] != FORMAT_VERSION:
                raise ValueError(
                    f"{path} has format {fields['format_version']}, not {FORMAT_VERSION}: prepare it again"
                )
            return cls(**fields)
        except FileNotFoundError:
            raise ValueError(f"{folder} is no data folder: it has no prepared.json; make one with `prepare`") from None
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None

    @property
    def copies(self) -> int:
        return self.reserved_copies + self.augmented_copies

    def describe(self, folder: Path) -> Iterator[str]:
        """The closing lines of `prepare`."""
        kept = self.pairs - self.copies
        yield f"{folder} is ready to train {self.source} to {self.target}:"
        yield f"  {kept:,} sentence pairs to learn from, and {self.reserved_copies:,} copies that teach placeholders"
        yield f"  {self.augmented_copies:,} copies in other case or punctuation"
        yield f"  {self.dev_pairs:,} pairs to measure by, none of whose sentences is among the former"
        yield f"  a vocabulary of {self.vocab_size:,} pieces, for both languages"


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of every file, by name; by its whole path where different files share a name."""
    found: dict[str, str] = {}
    for path in paths:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path.name if found.get(path.name, digest) == digest else str(path)] = digest
    return found


def check_free(out: Path, replace: bool) -> None:
    """Raises FileExistsError if a data folder must not be put at `out`."""
    if not out.exists():
        return
    if not replace:
        raise FileExistsError(f"{out} exists; give --replace to make it anew, or another --out")
    if not (out / "prepared.json").exists():
        raise FileExistsError(f"{out} is no data folder (it has no prepared.json), so it will not be replaced")


@contextmanager
def making(out: Path) -> Iterator[Path]:
    """An empty folder beside `out`, renamed to it at the end; a folder that is there is swapped by renames.

    Where that end is not reached, `out` is as it was.
    """
    out = out.absolute()
    partial, old = (out.with_name(f".{out.name}.{state}") for state in ("partial", "old"))
    for left_over in (partial, old):
        shutil.rmtree(left_over, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        if out.exists():
            out.rename(old)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def write_record(folder: Path, summary: PreparedSummary) -> None:
    text = json.dumps(dataclasses.asdict(summary), ensure_ascii=False, indent=2)
    (folder / "prepared.json").write_text(text + "\n", encoding="utf-8")
