"""The data folder between `prepare` and `train`, and its record.

Pairs are chosen in `training.data.prepare`, stored in `training.data.token_shards`, and drawn in
`training.data.batches`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.bundle import moses_language
from model.bundle_files import TARGET_VOCABULARY, VOCABULARY
from model.directions import Direction
from model.tokenizer import Tokenizers
from training.corpora.corpus import Pair

FORMAT_VERSION = 2
RECORD, DEVELOPMENT_PAIRS = "prepared.json", "dev.tsv"


@dataclass(frozen=True)
class PreparedSummary:
    """The content of `prepared.json`. `vocab_size`: of the larger vocabulary, if there are two. `pairs` counts all
    pairs in the token files; the last of these are copies, first `reserved_copies` with reserved symbols, then
    `augmented_copies` with different case, punctuation or names. Of the `read` lines of a corpus, some are `kept`, and
    the others `skipped` by reason. `files`: see `training.data.token_shards.file_digests`."""

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
    """The share of an epoch's pairs, including copies, whose source has an end mark: see model.languages."""
    augmented_copies: int = 0
    format_version: int = FORMAT_VERSION
    reverse: bool = False
    """Whether the pairs are read from target to source, which `source` and `target` then say too; never in the file,
    whose other fields stay those of the direction that was prepared."""

    @classmethod
    def load(cls, folder: Path, reverse: bool = False) -> PreparedSummary:
        """The record of `folder`, in the other direction if `reverse`. Raises ValueError, with a one-line message, if
        `folder` is not a data folder of this version, or has no other direction."""
        path = folder / RECORD
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            if fields["format_version"] != FORMAT_VERSION:
                raise ValueError(
                    f"{path} has format {fields['format_version']}, not {FORMAT_VERSION}: prepare it again"
                )
            summary = cls(**fields)
        except FileNotFoundError:
            raise ValueError(f"{folder} is not a data folder: it has no prepared.json; run `prepare`") from None
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if not reverse:
            return summary
        if summary.options.get("vocabulary"):
            raise ValueError(f"{folder} was prepared for fine-tuning a bundle, which has one direction")
        return dataclasses.replace(summary, source=summary.target, target=summary.source, reverse=True)

    @property
    def copies(self) -> int:
        return self.reserved_copies + self.augmented_copies

    @property
    def own_pairs(self) -> int:
        """The number of pairs that are not copies."""
        return self.pairs - self.copies

    def describe(self, folder: Path) -> Iterator[str]:
        """The lines with which `prepare` ends."""
        own = self.own_pairs
        yield f"{folder} is ready for training {self.source} to {self.target}:"
        yield f"  {own:,} sentence pairs to train on, and {self.reserved_copies:,} copies with placeholders"
        yield f"  {self.augmented_copies:,} copies with different case, punctuation or names"
        yield f"  {self.dev_pairs:,} development pairs, which share no sentence with the training pairs"
        whose = "vocabularies of up to" if self.options.get("target_vocabulary") else "a shared vocabulary of"
        yield f"  {whose} {self.vocab_size:,} pieces"


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of every file, by name; by its whole path if different files have the same name."""
    found: dict[str, str] = {}
    for path in paths:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found[path.name if found.get(path.name, digest) == digest else str(path)] = digest
    return found


def dev_pairs(data: Path, reverse: bool = False) -> list[Pair]:
    """Reads the development set, in the format in which `prepare` wrote it; `reverse` swaps the sides."""
    lines = (data / DEVELOPMENT_PAIRS).read_text(encoding="utf-8").split("\n")
    pairs = [Pair(*line.split("\t")) for line in lines if line]
    return [Pair(pair.target, pair.source) for pair in pairs] if reverse else pairs


def load_direction(data: Path, reverse: bool = False) -> Direction:
    """What a data folder's pairs translate, read as `PreparedSummary.load` does. Raises what that raises."""
    summary = PreparedSummary.load(data, reverse)
    prefixes = (tuple(summary.options.get(f"{side}_prefix", ())) for side in ("source", "target"))
    return Direction(summary.source, summary.target, *prefixes)


def load_tokenizers(data: Path) -> Tokenizers:
    """The tokenizers that made the tokens of a data folder. Raises ValueError if it is not one of this version."""
    summary, target = PreparedSummary.load(data), data / TARGET_VOCABULARY
    rules = moses_language(summary.options.get("punctuation"), [summary.source])
    return Tokenizers.of((data / VOCABULARY).read_bytes(), target.read_bytes() if target.exists() else None, rules)


def write_vocabularies(folder: Path, tokenizers: Tokenizers) -> None:
    (folder / VOCABULARY).write_bytes(tokenizers.source.proto)
    if not tokenizers.is_joint:
        (folder / TARGET_VOCABULARY).write_bytes(tokenizers.target.proto)


def write_record(folder: Path, summary: PreparedSummary) -> None:
    fields = {name: value for name, value in dataclasses.asdict(summary).items() if name != "reverse"}
    text = json.dumps(fields, ensure_ascii=False, indent=2)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")
