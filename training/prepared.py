"""The data folder between `prepare` and `train`: what is in it, and how it is put in place whole.

Knows arrays and files; how the pairs were chosen is `training.prepare`'s, how they are drawn `training.batches`'s.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from model.tokenizer import Tokenizer
from training.batches import Ragged
from training.corpus import Pair, write_pairs

FORMAT_VERSION = 1


@dataclass(frozen=True)
class PreparedSummary:
    """`prepared.json`. `pairs` are the rows of `train.safetensors`, of which `reserved_copies` are copies with
    reserved symbols. Of each corpus, `read` lines are `kept` or `skipped` by reason."""

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
    sources_with_end_marks: float = 0.0
    """The share of the pairs whose source ends as a sentence does: see model.marks."""
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

    def describe(self, folder: Path) -> Iterator[str]:
        """The closing lines of `prepare`."""
        kept = self.pairs - self.reserved_copies
        yield f"{folder} is ready to train {self.source} to {self.target}:"
        yield f"  {kept:,} sentence pairs to learn from, and {self.reserved_copies:,} copies that teach placeholders"
        yield f"  {self.dev_pairs:,} pairs to measure by, none of whose sentences is among the former"
        yield f"  a vocabulary of {self.vocab_size:,} pieces, for both languages"


@dataclass(frozen=True)
class TokenPairs:
    """The token ids of both sides of the same pairs, without start or end symbols."""

    source: Ragged
    target: Ragged

    @classmethod
    def of(cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> TokenPairs:
        """Packs the ids as they come: four bytes a token."""
        sides = [(array("i"), array("q", [0])), (array("i"), array("q", [0]))]
        for pair in pairs:
            for (ids, offsets), row in zip(sides, pair, strict=True):
                ids.extend(row)
                offsets.append(len(ids))
        return cls(*(Ragged(np.array(ids, np.int32), np.array(offsets, np.int64)) for ids, offsets in sides))

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.stack([self.source.lengths, self.target.lengths])  # [side, pairs]

    def keep(self, kept: NDArray[np.bool_]) -> TokenPairs:
        """The pairs for which `kept`, bool [pairs], is true."""
        return TokenPairs(_rows(self.source, kept), _rows(self.target, kept))

    def __add__(self, more: TokenPairs) -> TokenPairs:
        return TokenPairs(_joined(self.source, more.source), _joined(self.target, more.target))


def _rows(ragged: Ragged, kept: NDArray[np.bool_]) -> Ragged:
    offsets = np.concatenate([[0], ragged.lengths[kept].cumsum()]).astype(np.int64)
    return Ragged(ragged.ids[np.repeat(kept, ragged.lengths)], offsets)


def _joined(first: Ragged, second: Ragged) -> Ragged:
    offsets = np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]])
    return Ragged(np.concatenate([first.ids, second.ids]), offsets)


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


def write_prepared(
    out: Path,
    summary: PreparedSummary,
    tokenizer: Tokenizer,
    tokens: TokenPairs,
    corpus: NDArray[np.int16],
    dev: Sequence[Pair],
) -> None:
    """Write the folder beside its place and rename it in; one that is there is swapped by renames.

    `corpus`: the index of each pair's corpus in the summary, [pairs].
    """
    out = out.absolute()
    partial, old = (out.with_name(f".{out.name}.{state}") for state in ("partial", "old"))
    for left_over in (partial, old):
        shutil.rmtree(left_over, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "sentencepiece.model").write_bytes(tokenizer.proto)
    arrays: dict[str, NDArray[Any]] = {
        "source_ids": tokens.source.ids,
        "source_offsets": tokens.source.offsets,
        "target_ids": tokens.target.ids,
        "target_offsets": tokens.target.offsets,
        "corpus": corpus,
    }
    save_file(arrays, partial / "train.safetensors")
    write_pairs(partial / "dev.tsv", dev)
    text = json.dumps(dataclasses.asdict(summary), ensure_ascii=False, indent=2)
    (partial / "prepared.json").write_text(text + "\n", encoding="utf-8")
    if out.exists():
        out.rename(old)
    partial.rename(out)
    shutil.rmtree(old, ignore_errors=True)
