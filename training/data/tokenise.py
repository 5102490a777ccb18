"""Writes the pairs of a store, and copies of them, as token ids into a data folder; drops pairs of unsuitable lengths.

Pairs are read in `training.data.ingest`, files are written in `training.data.token_shards`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.languages import ends_sentence
from model.tokenizer import Tokenizer, Tokenizers
from training.corpora.corpus import LineTally, Pair
from training.data.augment.placeholder_copies import TokenCopy, token_copies
from training.data.augment.robustness import augmented_copies
from training.data.ingest import chunk_progress, progress
from training.data.options import RATIO_FROM_TOKENS, PrepareOptions, require
from training.data.pair_store import CHUNK_PAIRS, PairStore, encode
from training.data.token_shards import Integers, Mask, ShardWriter

UNKNOWN = "a character in the translation that the vocabulary lacks"


@dataclass(frozen=True)
class WrittenTokens:
    """The pairs that were written, without the copies after them; `files` as from `file_digests`.

    `sources_with_end_marks`: the share of an epoch's pairs, including copies, whose source has an end mark.
    """

    store: PairStore
    files: dict[str, list[int | str]]
    reserved_copies: int
    augmented_copies: int
    sources_with_end_marks: float


def write_tokens(
    options: PrepareOptions,
    store: PairStore,
    tokenizers: Tokenizers,
    weights: Sequence[float],
    folder: Path,
    skipped: Sequence[LineTally],
    dev: Sequence[Pair],
) -> WrittenTokens:
    """Writes the pairs of suitable lengths, and copies of them, to `folder`; counts the others in `skipped`.

    `weights`: how often an epoch draws a pair of each corpus. No copy contains a sentence of `dev`. Raises ValueError
    if no pair is left.
    """
    writer = ShardWriter(folder, max(tokenizer.vocab_size for tokenizer in tokenizers))
    store, kept, end_marks = _encode(options, store, tokenizers, writer, skipped)
    reserved = _write_copies(
        _reserved_copies(options, store, tokenizers), tokenizers.source, writer, "copying with placeholders"
    )
    augmented = _write_copies(
        _augmented_copies(options, store, tokenizers, dev), tokenizers.source, writer, "copying with changes"
    )
    copied = np.concatenate([reserved.pairs, augmented.pairs])
    of_corpora = np.append(store.corpora, store.corpora[copied])
    files = writer.finish(np.append(kept, np.ones_like(copied, np.bool_)), of_corpora)
    end_marks = np.concatenate([end_marks, reserved.end_marks, augmented.end_marks])
    share = _drawn_share(end_marks, of_corpora, weights)
    return WrittenTokens(store, files, len(reserved.pairs), len(augmented.pairs), share)


def _encode(
    options: PrepareOptions, store: PairStore, tokenizers: Tokenizers, writer: ShardWriter, skipped: Sequence[LineTally]
) -> tuple[PairStore, Mask, Mask]:
    """Writes the tokens of the pairs; counts those of unsuitable lengths, and with unknown targets, in `skipped`.

    Returns the other pairs, a mask of them among those written, and which of them have a source with an end mark.
    """
    lengths, end_marks, known = [], [], []
    chunks = encode(store, tokenizers, options.max_tokens, options.processes_for(store))
    for chunk in chunk_progress(chunks, store, "encoding"):
        fits = chunk.lengths.max(1) <= options.max_tokens  # [pairs]
        writer.add(chunk.ids, chunk.lengths * fits[:, None])
        lengths.append(chunk.lengths)
        end_marks.append(chunk.end_marks)
        known.append(chunk.known)
    both = np.concatenate(lengths)  # [pairs, side]
    kept = both.max(1) <= options.max_tokens
    require(bool(kept.any()), f"no pair is left of at most {options.max_tokens} tokens a side (max_tokens)")
    store = store.keep(kept, skipped, f"longer than {options.max_tokens} tokens")
    spelt = np.concatenate(known)[kept]
    require(bool(spelt.any()), f"no pair is left: each has {UNKNOWN}")
    store = store.keep(spelt, skipped, UNKNOWN)
    kept[kept] = spelt
    sound = proportionate(both[kept].T, options.max_ratio if options.cleaning().applies("lengths") else np.inf)
    store = store.keep(sound, skipped, "lengths out of proportion")
    kept[kept] = sound
    return store, kept, np.concatenate(end_marks)[kept]


def proportionate(lengths: NDArray[np.integer[Any]], max_ratio: float) -> Mask:
    """Which pairs are within `max_ratio` times the usual length ratio of this corpus: [pairs].

    `lengths`: tokens, [side, pairs], none 0. Short pairs always pass, since few words may well need many in return.
    """
    ratios = lengths[1] / lengths[0]  # [pairs]
    odds = ratios / np.median(ratios)
    sound: Mask = (lengths.max(0) <= RATIO_FROM_TOKENS) | ((odds <= max_ratio) & (odds >= 1 / max_ratio))
    return sound


def _reserved_copies(options: PrepareOptions, store: PairStore, tokenizers: Tokenizers) -> Iterator[TokenCopy]:
    """Copies of pairs with reserved symbols."""
    if options.reserved_share == 0:
        return iter(())
    wanted = round(options.reserved_share * len(store.pairs))
    return token_copies(store.pairs, wanted, tokenizers, options.max_tokens, Random(options.seed))


def _augmented_copies(
    options: PrepareOptions, store: PairStore, tokenizers: Tokenizers, dev: Sequence[Pair]
) -> Iterator[TokenCopy]:
    """Copies of pairs with different case and punctuation, and with other names."""
    if options.augment_share == 0:
        return iter(())
    wanted, languages = round(options.augment_share * len(store.pairs)), (options.source, options.target)
    random = Random(f"augmentation {options.seed}")
    return augmented_copies(store.pairs, wanted, tokenizers, languages, options.max_tokens, random, dev)


class _CopiesWritten(NamedTuple):
    """The copies written: of which pairs, [copies], and which of them have a source with an end mark."""

    pairs: Integers
    end_marks: Mask


def _write_copies(drawn: Iterator[TokenCopy], tokenizer: Tokenizer, writer: ShardWriter, what: str) -> _CopiesWritten:
    pairs, end_marks = array("q"), array("b")
    copies = iter(progress(drawn, what))
    while some := list(islice(copies, CHUNK_PAIRS)):
        ids = np.concatenate([side for copy in some for side in (copy.source, copy.target)])
        writer.add(ids, np.array([[len(copy.source), len(copy.target)] for copy in some], np.uint32))
        pairs.extend(copy.pair for copy in some)
        end_marks.extend(ends_sentence(tokenizer.decode(copy.source)) for copy in some)
    return _CopiesWritten(np.array(pairs, np.int64), np.array(end_marks, np.bool_))


def _drawn_share(wanted: Mask, of_corpora: Integers, weights: Sequence[float]) -> float:
    """The share of an epoch's draws that are `wanted`, [pairs]; `weights`: how often it draws a pair of each corpus."""
    of_each = [of_corpora == number for number in range(len(weights))]
    drawn = sum(weight * np.count_nonzero(own) for weight, own in zip(weights, of_each, strict=True))
    return float(
        sum(weight * np.count_nonzero(own & wanted) for weight, own in zip(weights, of_each, strict=True)) / drawn
    )
